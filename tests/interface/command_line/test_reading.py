"""Files of features and answers: ids stay as they are written, errors name the file."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.command_line.reading import read_answer_file, read_feature_file

PAIRS = ("left", "right", "worker", "page")


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["item", "id", "item_id", "ID", "Item ", "plant"])
def test_ids_are_found_and_stay_text(tmp_path, name):
    path = write(tmp_path / "x.csv", f"{name},a,b\n007,1,2.5\nNA,3,4\n x y ,5,6\n")
    table = read_feature_file(path, id_column="plant" if name == "plant" else None)
    assert table.ids.tolist() == ["007", "NA", "x y"]
    assert table.columns == ["a", "b"]
    assert table.values.to_numpy().tolist() == [[1, 2.5], [3, 4], [5, 6]]


def test_a_first_column_of_text_holds_the_ids(tmp_path):
    path = write(tmp_path / "x.tsv", "plant\ta\noak\t1\nelm\t2\n")
    assert read_feature_file(path).ids.tolist() == ["oak", "elm"]


@pytest.mark.parametrize(
    ("cells", "are_ids"),
    [
        (["000", "001", "012"], True),
        (["7", "8", "9"], False),
        (["000", "001", "001"], False),
        (["00", "1", "2"], False),
    ],
    ids=["padded", "numbers", "repeated", "uneven"],
)
def test_a_first_column_of_padded_numbers_holds_the_ids(tmp_path, cells, are_ids):
    rows = [f"{cell},{number}.5" for number, cell in enumerate(cells)]
    (tmp_path / "x.csv").write_text("\n".join(["code,a", *rows]))
    table = read_feature_file(tmp_path / "x.csv")
    assert table.columns == (["a"] if are_ids else ["code", "a"])
    assert table.ids.tolist() == (cells if are_ids else ["0", "1", "2"])


def test_rows_without_ids_are_numbered(tmp_path):
    path = write(tmp_path / "x.csv", "a,b\n1,2\n3,4\n")
    assert read_feature_file(path).ids.tolist() == ["0", "1"]
    np.save(tmp_path / "x.npy", np.ones((2, 3, 4)))
    table = read_feature_file(tmp_path / "x.npy")
    assert (table.values.shape, table.ids.tolist(), table.columns) == ((2, 3, 4), ["0", "1"], None)


def test_a_column_of_features_holds_no_ids(tmp_path):
    (tmp_path / "x.csv").write_text("town,a,name\nBari,1,u\nRome,2,v\n", encoding="utf-8")
    found = read_feature_file(tmp_path / "x.csv", usual_ids="place", features=["town", "a"])
    assert (found.ids.tolist(), found.columns) == (["0", "1"], ["town", "a", "name"])
    found = read_feature_file(tmp_path / "x.csv", usual_ids="name", features=["town", "a"])
    assert (found.ids.tolist(), found.columns) == (["u", "v"], ["town", "a"])


def test_columns_can_be_left_out(tmp_path):
    path = write(tmp_path / "x.csv", "kind,item,a\nred,u,1\nblue,v,2\n")
    table = read_feature_file(path, ignore=["kind"])
    assert (table.ids.tolist(), table.columns) == (["u", "v"], ["a"])


def test_answers_in_the_place_of_features(tmp_path):
    path = write(tmp_path / "x.csv", "left,right,worker,label\nu,v,ann,1\nu,w,ann,0\n")
    with pytest.raises(ValueError, match="x.csv has the columns left, .* do: pass it as --pairs"):
        read_feature_file(path)


def test_answers_in_words_or_numbers_meet_features_by_id(tmp_path):
    features = read_feature_file(write(tmp_path / "x.csv", "item,a\n01,1\n02,2\n03,4\n"))
    words = write(tmp_path / "w.csv", "left,right,worker,label\n01,02,9,same\n02,03,9,different\n")
    numbers = write(tmp_path / "n.csv", "left,right,worker,label\n01,02,9,1\n02,03,9,0\n")
    tables = [
        CrowdData(features.values, read_answer_file(path, PAIRS), item_ids=features.ids).pairs
        for path in (words, numbers)
    ]
    assert tables[0].equals(tables[1])
    assert tables[0].to_numpy().tolist() == [["01", "02", "9", 1], ["02", "03", "9", 0]]


def test_row_numbers_in_answers_meet_an_array(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(3, 2))
    features = read_feature_file(tmp_path / "x.npy")
    path = write(tmp_path / "p.csv", "left,right,worker,label\n0,2,a,1\n")
    data = CrowdData(features.values, read_answer_file(path, PAIRS), item_ids=features.ids)
    assert data.answers.right.tolist() == [2]


def test_an_empty_id_is_missing(tmp_path):
    path = write(tmp_path / "p.csv", "left,right,worker,label\na,,w,1\n")
    answers = read_answer_file(path, PAIRS)
    with pytest.raises(ValueError, match="right is .*missing; fill it in, or drop the row"):
        CrowdData(None, answers)


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ("a,b,w,1\na,a,w,1\n", 3),
        ("a,b,w,1\r\na,a,w,1", 3),
        ("a,b,w,1\n\n\na,a,w,1\n\n", 5),
        ('a,b,"the\nold",1\na,a,w,1\n', 4),
    ],
    ids=["plain", "Windows", "empty lines", "a cell of two lines"],
)
@pytest.mark.parametrize("above", ["", "sep=,\n"])
def test_an_error_names_the_line_of_the_file(tmp_path, rows, line, above):
    path = tmp_path / "p.csv"
    path.write_text(f"{above}left,right,worker,label\n{rows}", encoding="utf-8", newline="")
    with pytest.raises(ValueError, match=f"pairs line {line + bool(above)}: left is 'a', an item"):
        CrowdData(None, read_answer_file(path, PAIRS))


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is an optional extra, and not installed")
    frame = pd.DataFrame({"a": [1.0, 2.0]}, index=pd.Index(["u", "v"], name="item"))
    frame.to_parquet(tmp_path / "x.parquet")
    table = read_feature_file(tmp_path / "x.parquet")
    assert (table.ids.tolist(), table.columns) == (["u", "v"], ["a"])
    pairs = pd.DataFrame({"left": ["u"], "right": ["v"], "worker": [3], "label": [True]})
    pairs.to_parquet(tmp_path / "p.parquet")
    answers = read_answer_file(tmp_path / "p.parquet", PAIRS)
    data = CrowdData(table.values, answers, item_ids=table.ids)
    assert data.worker_ids.tolist() == ["3"]


def test_an_index_of_parquet_without_a_name_holds_the_ids(tmp_path):
    """As that of the same table in .csv; only row numbers are none."""
    pytest.importorskip("pyarrow", reason="pyarrow is an optional extra, and not installed")
    frame = pd.DataFrame({"a": np.arange(80.0)})
    for index, ids in (
        ([f"k{row}" for row in range(80)], ["k0", "k1"]),
        (range(79, -1, -1), ["79", "78"]),
        (range(100, 180), ["100", "101"]),
        (range(80), ["0", "1"]),
    ):
        frame.set_axis(pd.Index(index)).to_parquet(tmp_path / "x.parquet")
        table = read_feature_file(tmp_path / "x.parquet")
        assert (table.ids[:2].tolist(), table.columns) == (ids, ["a"])


def test_an_index_without_a_name_is_no_feature_beside_ids(tmp_path):
    frame = pd.DataFrame({"id": ["u", "v", "w"], "a": [1.0, 2.0, 4.0]}, index=[3, 8, 1])
    frame.to_csv(tmp_path / "x.csv")
    table = read_feature_file(tmp_path / "x.csv")
    assert (table.ids.tolist(), table.columns) == (["u", "v", "w"], ["a"])
    table = read_feature_file(tmp_path / "x.csv", ignore=["a"], id_column="Unnamed: 0")
    assert (table.ids.tolist(), table.columns) == (["3", "8", "1"], ["id"])


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"needs pyarrow: pip install 'pyro-crowdclust\["):
        read_feature_file(tmp_path / "x.parquet")


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("none.csv", None, {}, "there is no file .*none.csv"),
        ("x.xlsx", b"", {}, "does not end in one of .npy, .csv, .tsv, .parquet: convert it"),
        ("x.csv", b"", {}, "cannot read .*x.csv: No columns to parse"),
        ("x.csv", b"a,b\n1,2\n1,2,3,4\n", {}, "cannot read .*x.csv: Error tokenizing data"),
        ("x.csv", b"a\n\xff\xfe\n", {}, "cannot read .*x.csv: it is not UTF-8"),
        ("x.csv", b"item,a,b\n", {}, "x.csv has no rows: write one for every item"),
        ("x.csv", b"a\n1\n", {"id_column": "z"}, r"has no column 'z'; it has \['a'\]"),
        ("x.csv", b"a\n1\n", {"ignore": ["z"]}, "has no column 'z'"),
        ("x.npy", b"nothing", {}, "cannot read .*x.npy"),
        ("x.npy", b"", {"ignore": ["z"]}, "is an array, which has no columns to name"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, options, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_feature_file(path, **options)


def test_arrays_of_objects_run_nothing(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"cannot read .*x.npy"):
        read_feature_file(tmp_path / "x.npy")


def test_a_single_number_is_no_table(tmp_path):
    np.save(tmp_path / "x.npy", np.float64(3.0))
    with pytest.raises(ValueError, match="holds a single number"):
        read_feature_file(tmp_path / "x.npy")


@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_with_either_decimal_mark(tmp_path, separator, decimal):
    frame = pd.DataFrame({"item": ["u", "v"], "a": [1.5, 2.0], "b": [0.25, 3.0]})
    frame.to_csv(tmp_path / "x.csv", sep=separator, decimal=decimal, index=False)
    table = read_feature_file(tmp_path / "x.csv")
    assert table.ids.tolist() == ["u", "v"]
    np.testing.assert_array_equal(table.values, frame[["a", "b"]])


@pytest.mark.parametrize("line", ["sep=;\n", '\ufeff"sep=;"\r\n'])
def test_a_line_that_states_the_separator_is_no_row(tmp_path, line):
    """As Excel writes it."""
    table = read_feature_file(write(tmp_path / "x.csv", f"{line}item;a\n01;1,5\n02;2\n"))
    assert (table.ids.tolist(), table.columns) == (["01", "02"], ["a"])
    assert table.values["a"].tolist() == [1.5, 2.0]
    said = f"{line}left;right;worker;label\n01;02;w;1\n"
    assert read_answer_file(write(tmp_path / "p.csv", said), PAIRS)["label"].tolist() == [1]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("line", ["", "sep=\t\n"])
def test_a_mark_that_states_the_encoding(tmp_path, encoding, line):
    """As Excel writes "Unicode Text", separated by tabs."""
    path = tmp_path / "x.csv"
    path.write_text(f"{line}item\ta\nbär\t1,5\nœuf\t2\n", encoding=encoding)
    table = read_feature_file(path)
    assert (table.ids.tolist(), table.columns) == (["bär", "œuf"], ["a"])
    assert table.values["a"].tolist() == [1.5, 2.0]
    path.write_text(f"{line}left\tright\tworker\tlabel\nbär\tœuf\tw\t1\n", encoding=encoding)
    pairs = read_answer_file(path, PAIRS)
    assert pairs.loc[2 + bool(line)].tolist() == ["bär", "œuf", "w", 1]


def test_a_line_above_the_table_is_told_of(tmp_path):
    (tmp_path / "x.csv").write_text("# made by hand\nitem,a\nu,1.5\nv,2.0\n")
    with pytest.raises(ValueError, match="names 1 column in its first line, .* hold 2 values"):
        read_feature_file(tmp_path / "x.csv")


@pytest.mark.parametrize("ends", [",", ",,", ", "])
def test_rows_that_end_in_separators(tmp_path, ends):
    rows = "".join(f"0{row},{row + 1},{row / 2}{ends}\n" for row in range(60))
    table = read_feature_file(write(tmp_path / "x.csv", f"item,a,b\n{rows}"))
    assert table.ids.tolist() == [f"0{row}" for row in range(60)]
    np.testing.assert_array_equal(table.values, [[row + 1, row / 2] for row in range(60)])
    said = "left,right,worker,label\n01,02,w,1,\n02,03,v,0,\n"
    answers = read_answer_file(write(tmp_path / "p.csv", said), PAIRS)
    assert answers.to_numpy().tolist() == [["01", "02", "w", 1], ["02", "03", "v", 0]]


def test_a_value_in_a_column_without_a_name_is_found_wherever_it_is(tmp_path):
    rows = "".join(f"0{row},{row + 1},\n" for row in range(90))
    path = write(tmp_path / "x.csv", f"item,a\n{rows}091,2,lost,\n")
    with pytest.raises(
        ValueError, match="in its first line, but line 92 has 'lost' in a column beyond"
    ):
        read_feature_file(path)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_first_column_without_a_name_holds_the_ids(tmp_path, separator):
    rows = ["a,b", "007,1.5,2", "012,3.5,4"]  # as R writes a table with names of rows
    text = "\n".join(rows).replace(",", separator)
    table = read_feature_file(write(tmp_path / "x.csv", text))
    assert (table.ids.tolist(), table.columns) == (["007", "012"], ["a", "b"])
    assert table.values.to_numpy().tolist() == [[1.5, 2], [3.5, 4]]


def test_rows_with_many_more_values_than_names(tmp_path):
    path = write(tmp_path / "x.csv", "a,b\n1,2,3,4\n5,6,7,8\n")
    with pytest.raises(ValueError, match="names 2 columns in its first line, .* hold 4 values"):
        read_feature_file(path)


@pytest.mark.parametrize("header", ["item,a,a", "item, a,a ", '"item","a","a"', "item,5,5"])
@pytest.mark.parametrize("read", [read_feature_file, lambda path: read_answer_file(path, PAIRS)])
def test_two_columns_of_one_name(tmp_path, header, read):
    path = write(tmp_path / "x.csv", f"{header}\nu,1,2\nv,3,4\n")
    with pytest.raises(ValueError, match="has two columns '[a5]': rename or"):
        read(path)


def test_columns_that_are_named_as_pandas_would(tmp_path):
    path = write(tmp_path / "x.csv", "item,a,a.1,,\nu,1,2,3,4\n")
    assert read_feature_file(path).columns == ["a", "a.1", "Unnamed: 3", "Unnamed: 4"]


@pytest.mark.parametrize("text", ["5.1,3.5\n4.9,3.0\n", "rose,5.1,3\noak,4.9,3.0\n", "5.5\n1\n"])
def test_a_row_of_numbers_in_place_of_names(tmp_path, text):
    with pytest.raises(
        ValueError, match="begins with a row of numbers .*, not of names: insert a first line"
    ):
        read_feature_file(write(tmp_path / "x.csv", text))


@pytest.mark.parametrize("text", ["1,2\n3,4\n", "rose,5,3\noak,4,3\n", "7\n1\n"])
def test_numbers_that_may_be_names(tmp_path, text):
    with pytest.warns(UserWarning, match="numbers in its first line .*or that item is lost"):
        read_feature_file(write(tmp_path / "x.csv", text))


@pytest.mark.parametrize("index", [True, False])
def test_the_names_that_pandas_gives_are_names(tmp_path, index):
    pd.DataFrame([[1.5, 2.5], [3.5, 4.5]]).to_csv(tmp_path / "x.csv", index=index)
    table = read_feature_file(tmp_path / "x.csv")
    assert (table.columns, len(table.ids)) == (["0", "1"], 2)


def test_a_cell_of_many_letters(tmp_path):
    path = write(tmp_path / "x.csv", f"left,right,worker,label,note\na,b,w,1,{'x' * 140_000}\n")
    assert read_answer_file(path, PAIRS)["label"].tolist() == [1]


def test_the_index_that_pandas_writes_is_no_feature(tmp_path):
    pd.DataFrame({"a": [1.5, 2.0, 4.0]}, index=[7, 8, 9]).to_csv(tmp_path / "x.csv")
    table = read_feature_file(tmp_path / "x.csv")
    assert (table.columns, table.ids.tolist()) == (["a"], ["7", "8", "9"])


def test_a_column_that_is_nearly_there(tmp_path):
    (tmp_path / "x.csv").write_text("name,height\nu,1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no column 'hight'.*did you mean 'height'"):
        read_feature_file(tmp_path / "x.csv", ignore=["hight"])
