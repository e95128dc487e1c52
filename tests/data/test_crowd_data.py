from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pandas as pd
import pyarrow
import pytest
import torch

from pyro_crowdclust import cluster
from pyro_crowdclust.data import Columns, CrowdData
from pyro_crowdclust.data import features as features_module
from pyro_crowdclust.data.tables import codes_and_ids

IDS = ["ant", "bee", "cat", "dog"]


def table(**changed) -> pd.DataFrame:
    """Three valid answers; keywords replace columns."""
    columns = {
        "left": ["ant", "cat", "dog"],
        "right": ["bee", "ant", "bee"],
        "worker": ["wu", "ada", "wu"],
        "label": [1, 0, 1],
    }
    return pd.DataFrame(columns | changed, index=["r0", "r1", "r2"])


def features() -> np.ndarray:
    return np.arange(8.0).reshape(4, 2)


def crowd(**changed) -> CrowdData:
    return CrowdData(features(), table(**changed), item_ids=IDS)


def test_answers_are_positions_and_codes():
    data = crowd(page=["p2", "p1", "p2"])
    assert data.answers.left.tolist() == [0, 2, 3]
    assert data.answers.right.tolist() == [1, 0, 1]
    assert data.answers.worker.tolist() == [1, 0, 1]
    assert data.answers.page.tolist() == [1, 0, 1]
    assert data.answers.label.tolist() == [1.0, 0.0, 1.0]
    assert data.answers.left.dtype == data.answers.page.dtype == torch.int64
    assert data.answers.label.dtype == torch.float64
    assert list(data.worker_ids) == ["ada", "wu"]
    assert list(data.page_ids) == ["p1", "p2"]
    assert (data.num_items, data.num_workers, data.num_pairs, data.has_pages) == (4, 2, 3, True)


def test_without_answers():
    data = CrowdData(features())
    assert data.answers is None
    assert data.pairs is None
    assert data.annotated_items.tolist() == []
    assert (data.num_workers, data.num_pairs, data.has_pages) == (0, 0, False)
    assert list(data.item_ids) == [0, 1, 2, 3]


def test_annotated_items_are_sorted_and_unique():
    data = CrowdData(np.eye(6), table(left=[5, 3, 5], right=[3, 1, 1]))
    assert data.annotated_items.tolist() == [1, 3, 5]


@pytest.mark.parametrize("with_pages", [True, False])
def test_pairs_come_back_with_the_users_ids(with_pages):
    pages = {"page": [10, 10, 30]} if with_pages else {}
    given = table(worker=[9, 7, 9], **pages)
    pd.testing.assert_frame_equal(CrowdData(features(), given, item_ids=IDS).pairs, given)


def test_ids_of_a_data_frame_are_its_index():
    frame = pd.DataFrame(features(), index=IDS, columns=["x", "y"])
    data = CrowdData(frame, table())
    assert list(data.item_ids) == IDS
    pd.testing.assert_frame_equal(data.pairs, table())
    assert torch.equal(
        data.rows(data.item_positions(["dog", "ant"])), torch.tensor([[6.0, 7], [0, 1]]).double()
    )


def test_tables_of_other_libraries():
    """As those of pandas, without an index; polars has ``to_pandas`` as well."""
    columns = pyarrow.table({"size": [0.0, 1.5, 2.5, 4.0], "kind": ["a", "b", "b", "a"]})
    answers = pyarrow.table({"left": [0], "right": [2], "worker": ["wu"], "label": [1]})
    data = CrowdData(columns, answers)
    assert data.item_ids.tolist() == [0, 1, 2, 3]
    known = CrowdData(columns, known=columns["kind"], item_ids=IDS).known
    assert known.tolist() == [0, 1, 1, 0]
    assert data.num_pairs == 1
    assert data.columns is not None
    assert data.columns.table().index.tolist() == ["size", "kind"]


def test_given_ids_go_before_those_of_a_data_frame():
    frame = pd.DataFrame(features(), index=list("efgh"))
    assert list(CrowdData(frame, item_ids=IDS).item_ids) == IDS


def test_answers_alone_define_the_items():
    data = CrowdData(None, table())
    assert list(data.item_ids) == IDS
    assert data.features is None
    pd.testing.assert_frame_equal(data.pairs, table())
    with pytest.raises(ValueError, match="no features"):
        data.rows(torch.tensor([0]))


def test_ids_alone_define_the_items():
    assert CrowdData(None, item_ids=IDS).num_items == 4


@pytest.mark.parametrize(
    ("ids", "workers"),
    [
        ([40, 10, 30, 20], [3, 1, 2]),
        ([(0, "a"), (0, "b"), (1, "a"), (1, "b")], [("x", 1), ("x", 0), ("x", 1)]),
        (["ant", 7, "cat", 8], ["wu", 3, "wu"]),
    ],
    ids=["integers", "tuples", "mixed"],
)
def test_any_hashable_id_makes_the_round_trip(ids, workers):
    given = table(left=[ids[0], ids[2], ids[3]], right=[ids[1], ids[0], ids[1]], worker=workers)
    data = CrowdData(features(), given, item_ids=ids)
    assert data.answers.left.tolist() == [0, 2, 3]
    back = data.pairs
    for column in given:
        assert back[column].tolist() == given[column].tolist()


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([-128, 127, 0, 0] * 99, "int8"),
        ([2**64 - 1, 2**64 - 4] * 5, "uint64"),
        ([7, 3, 3, 9], "int64"),
        ([10**15, 0, -(10**15)], "int64"),
    ],
)
def test_integers_near_and_far_are_coded_in_their_order(values, dtype):
    column = pd.Series(values, dtype=dtype, name="worker")
    codes, ids = codes_and_ids(column, "labels")
    expected_ids, expected_codes = np.unique(column, return_inverse=True)
    pd.testing.assert_index_equal(ids, pd.Index(expected_ids))
    np.testing.assert_array_equal(codes, expected_codes)


def test_categories_and_levels_are_plain_ids():
    given = table().astype({"left": "category", "right": "category", "worker": "category"})
    data = CrowdData(features(), given, item_ids=pd.CategoricalIndex(IDS))
    assert data.answers.left.tolist() == [0, 2, 3]
    levels = pd.MultiIndex.from_product([[0, 1], ["a", "b"]])
    data = CrowdData(pd.DataFrame(features(), index=levels))
    assert data.item_positions([(1, "a")]).tolist() == [2]


def test_tables_that_pandas_accepts():
    rows = np.array(
        [(0, 1, 5, 1), (2, 1, 5, 0)],
        dtype=[(n, "i8") for n in ("left", "right", "worker", "label")],
    )
    for pairs in (rows, {name: rows[name] for name in rows.dtype.names}):
        assert CrowdData(features(), pairs).answers.left.tolist() == [0, 2]


@pytest.mark.parametrize(
    "labels",
    [
        [True, False, True],
        [1.0, 0.0, 1.0],
        pd.array([1, 0, 1], dtype="Int64"),
        pd.array([True, False, True], dtype="boolean"),
        np.array([True, 0, 1.0], dtype=object),
    ],
    ids=["bool", "float", "Int64", "boolean", "object"],
)
def test_labels_of_every_kind(labels):
    assert crowd(label=labels).answers.label.tolist() == [1.0, 0.0, 1.0]


def test_contradicting_answers_pass_silently():
    data = crowd(left=["ant", "bee", "dog"], right=["bee", "ant", "bee"], worker=["wu"] * 3)
    assert data.num_pairs == 3


@pytest.mark.parametrize(
    ("given", "returned"),
    [
        (np.float16, torch.float16),
        (np.float32, torch.float32),
        (np.float64, torch.float64),
        (">f4", torch.float32),
        (np.longdouble, torch.float64),
        (np.uint8, torch.float32),
        (np.uint64, torch.float32),
        (np.int64, torch.float32),
        (bool, torch.float32),
    ],
)
def test_rows_keep_the_precision_of_floats(given, returned):
    array = (np.arange(24).reshape(4, 3, 2) % 2).astype(given)
    rows = CrowdData(array).rows(torch.tensor([3, 0, 3]))
    assert rows.dtype == returned
    assert rows.double().tolist() == array[[3, 0, 3]].astype(float).tolist()


@pytest.mark.parametrize(
    ("given", "returned"),
    [
        (torch.bfloat16, torch.bfloat16),
        (torch.float64, torch.float64),
        (torch.uint8, torch.float32),
        (torch.bool, torch.float32),
    ],
)
def test_rows_of_a_tensor(given, returned):
    tensor = (torch.arange(8).reshape(4, 2) % 2).to(given)
    rows = CrowdData(tensor).rows(torch.tensor([2, 1]))
    assert rows.dtype == returned
    assert torch.equal(rows, tensor[[2, 1]].to(returned))


def test_features_of_a_tensor_carry_no_gradient():
    assert not CrowdData(torch.ones(2, 2, requires_grad=True)).rows(torch.tensor([0])).requires_grad


def test_a_memory_map_is_not_copied(tmp_path):
    array = np.memmap(tmp_path / "features", dtype=np.float32, mode="w+", shape=(5, 3))
    array[:] = np.arange(15).reshape(5, 3)
    array = np.memmap(tmp_path / "features", dtype=np.float32, mode="r", shape=(5, 3))
    data = CrowdData(array)
    assert data.features is array
    assert data.rows(torch.tensor([4])).tolist() == [[12.0, 13.0, 14.0]]


def test_arrays_and_tensors_are_not_copied():
    array, tensor = features(), torch.ones(3, 2)
    assert CrowdData(array).features is array
    assert CrowdData(tensor).features.data_ptr() == tensor.data_ptr()


@pytest.mark.parametrize("chunk", [1, 4, 2**20])
@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
def test_features_that_are_not_finite(monkeypatch, chunk, convert):
    monkeypatch.setattr(features_module, "_CHUNK_ELEMENTS", chunk)
    array = np.zeros((6, 2))
    array[3, 1], array[5, 0], array[1, 1] = np.inf, -np.inf, np.nan
    with pytest.raises(ValueError, match=r"features row 3, column 1 is infinite \(2 such"):
        CrowdData(convert(array))


def test_features_that_are_not_finite_deep_inside_an_item():
    array = np.zeros((3, 2, 2))
    array[2, 0, 1] = np.inf
    with pytest.raises(ValueError, match="row 2, column 0, 1 is"):
        CrowdData(array)
    with pytest.raises(ValueError, match="row 1 is"):
        CrowdData(np.array([0.0, np.inf]))


@pytest.mark.parametrize("chunk", [1, 2**20])
@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy, pd.DataFrame])
def test_missing_features_are_counted(monkeypatch, chunk, convert):
    monkeypatch.setattr(features_module, "_CHUNK_ELEMENTS", chunk)
    array = np.arange(12.0).reshape(6, 2) / 4
    array[3, 1] = array[5, 0] = np.nan
    data = CrowdData(convert(array))
    assert (data.num_missing, data.has_gaps) == (2, True)
    assert repr(data) == "CrowdData(6 items, features float64 [2], 2 missing values, no answers)"
    assert not CrowdData(convert(np.arange(12.0).reshape(6, 2))).has_gaps
    with pytest.raises(ValueError, match="all features are missing"):
        CrowdData(np.full((2, 2), np.nan))
    new = CrowdData(convert(np.full((1, 2), np.nan)), kinds=Columns.of_numbers(2))
    assert new.num_missing == 2  # of new items nothing need be known


@pytest.mark.parametrize("dtype", ["float64", "Float64", "Int64"])
def test_every_kind_of_missing_number_is_a_gap(dtype):
    frame = pd.DataFrame({"x": [0, 1], "y": pd.array([2, None], dtype="Int64")})
    frame["y"] = frame["y"].astype(dtype)
    data = CrowdData(frame)
    assert data.num_missing == 1
    np.testing.assert_array_equal(data.features, [[0, 2], [1, np.nan]])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.array([["a"], ["b"]]), "not dense real numbers"),
        (np.array([[1], [None]]), "not dense real numbers"),
        (np.ones((2, 1), dtype=complex), "not dense real numbers"),
        (torch.ones(2, 1, dtype=torch.complex64), "not dense real numbers"),
        (torch.eye(2).to_sparse(), "not dense real numbers"),
        (pd.DataFrame({"x": [1, 2], "sets": [{1}, {2}]}), "column 'sets' holds set"),
        (pd.Series([1.0, 2.0]), r"`\.to_frame\(\)`"),
        ([[1.0], [2.0, 3.0]], "features are a list that makes no array .*: give every row as"),
        ([["a", 1.0], ["b", 2.0]], "not dense real numbers"),
        ({"x": [1.0]}, "features are a dict; pass an array, a tensor, a data frame"),
        ("table.csv", r"features are a str; .* `pandas.read_csv` of a file"),
        (np.zeros((0, 3)), "at least one row"),
        (np.zeros((3, 0)), "at least one number per row"),
        (np.array(1.0), "at least one row"),
    ],
)
def test_features_that_are_rejected(bad, message):
    with pytest.raises(ValueError, match=message):
        CrowdData(bad)


@pytest.mark.parametrize("rows", [[[1, 2], [3, 4]], ((1.0, 2), (3, 4)), [torch.ones(2)] * 2])
def test_rows_in_lists(rows):
    data = CrowdData(rows)
    np.testing.assert_array_equal(data.features, np.stack([np.asarray(row) for row in rows]))


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["ant", "bee", "ant", "bee"], r"item_ids row 2 is 'ant', once more \(2 such rows\)"),
        (["ant", "bee", None, "dog"], "item_ids row 2 is .*, which is missing"),
        (["ant", "bee"], "2 item_ids for 4 rows"),
        ([], "item_ids are empty"),
        ([["ant"], ["bee"], ["cat"], ["dog"]], "item_ids must be a flat list"),
        ("ants", "item_ids must be a flat list of .*, but is 'ants': pass a list, also of one"),
    ],
)
def test_item_ids_that_are_rejected(ids, message):
    with pytest.raises(ValueError, match=message):
        CrowdData(features(), item_ids=ids)


def test_a_data_frame_with_a_repeated_index():
    with pytest.raises(ValueError, match="row 1 is 'a', once more"):
        CrowdData(pd.DataFrame({"x": [1, 2]}, index=["a", "a"]))


def test_no_items():
    """Of the arguments that the message names, pairs and placements are those of ``cluster``."""
    message = (
        "there are no items: pass features, or answers about some, which are pairs or placements; "
        "CrowdData takes labels and item_ids, too$"
    )
    for call in (CrowdData, cluster):
        with pytest.raises(ValueError, match=message):
            call(None)


def test_item_positions():
    data = crowd()
    assert data.item_positions(["dog", "ant", "dog"]).tolist() == [3, 0, 3]
    assert data.item_positions([]).tolist() == []
    with pytest.raises(
        ValueError, match=r"ids row 1 is 'emu', not among the item ids \(such as 'ant'"
    ):
        data.item_positions(["dog", "emu"])


def test_item_positions_without_ids():
    data = CrowdData(features())
    assert data.item_positions(torch.tensor([3, 1])).tolist() == [3, 1]
    with pytest.raises(ValueError, match="ids row 0 is 4, not a position from 0 to 3"):
        data.item_positions([4])


@pytest.mark.parametrize("one", [3, "3", b"3", None, np.int64(3), np.array(3)])
def test_item_positions_of_an_id_in_no_list(one):
    with pytest.raises(ValueError, match=r"ids must be a flat list of .*: pass a list, also of on"):
        CrowdData(features()).item_positions(one)


def test_ids_of_some_rows_are_no_positions():
    """Those of a sliced table are a range to pandas, as are positions."""
    some, message = pd.DataFrame(features())[1:], r"not among the item ids \(such as 1, 2, 3\); cor"
    pairs = {"left": [1, 0], "right": [2, 1], "worker": ["a", "a"], "label": [1, 0]}
    with pytest.raises(ValueError, match=rf"row 1 \(index 1\): left is 0, {message}.* row$"):
        CrowdData(some, pairs)
    with pytest.raises(ValueError, match=rf"known row 1 is of 0, {message}"):
        CrowdData(some, known={2: "a", 0: "b"})


@pytest.mark.parametrize("column", ["left", "right", "worker", "label"])
def test_a_missing_column(column):
    with pytest.raises(ValueError, match=f"pairs have no column '{column}'"):
        CrowdData(features(), table().drop(columns=column), item_ids=IDS)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (
            [("ant", "bee", "wu", 1)],
            r"no column 'left', 'right', 'worker' or 'label' \(columns: \[0, 1, 2, 3\]\); name the "
            r"columns: pandas.DataFrame\(rows, columns=\['left', 'right', 'worker', 'label'\]\)",
        ),
        (table().drop(columns="worker"), "no column 'worker' .*; add it, with one and the same na"),
        (
            table().rename(columns=str.title),
            r"no column 'left', 'right', 'worker' or 'label' .*\['Left'.*; did you mean 'Left'",
        ),
        (table().rename(columns={"left": "a", "right": "b"}), "no column 'left' or 'right' .*; re"),
    ],
    ids=["rows", "nobody", "capitals", "others"],
)
def test_what_to_do_about_missing_columns(pairs, message):
    with pytest.raises(ValueError, match=f"pairs have {message}"):
        CrowdData(features(), pairs, item_ids=IDS)


def test_positions_that_are_texts():
    said = {"left": ["0"], "right": ["1"], "worker": ["wu"], "label": [1]}
    with pytest.raises(ValueError, match=r"left is '0', not a position .*; did you mean 0\?"):
        CrowdData(features(), said)


def test_a_repeated_column():
    twice = pd.concat([table(), table()[["worker"]]], axis=1)
    with pytest.raises(ValueError, match="pairs have 2 columns 'worker'"):
        CrowdData(features(), twice, item_ids=IDS)


def test_an_empty_table():
    with pytest.raises(ValueError, match="pairs have no rows"):
        CrowdData(features(), table().iloc[:0], item_ids=IDS)


def test_answers_in_the_place_of_features():
    pairs = pd.DataFrame({"left": [0], "right": [1], "worker": ["a"], "label": [1]})
    with pytest.raises(ValueError, match="as pairs do: pass the table as pairs=pairs, and the fea"):
        CrowdData(pairs)
    labels = pd.DataFrame({"item": [0], "worker": ["a"], "label": ["x"]})
    with pytest.raises(ValueError, match="as labels do: pass the table as labels=labels"):
        CrowdData(labels, labels=np.eye(2))
    with pytest.raises(ValueError, match="said of single items is labels, not pairs: pass the tab"):
        CrowdData(np.eye(2), labels)
    pages = pd.DataFrame({"page": ["p"], "item": [0], "worker": ["a"], "group": ["x"]})
    with pytest.raises(ValueError, match="said of single items is placements, not pairs: pass the"):
        CrowdData(np.eye(2), pages)


def test_something_that_is_no_table():
    with pytest.raises(ValueError, match="pairs are not a table"):
        CrowdData(features(), "answers.csv", item_ids=IDS)


@pytest.mark.parametrize("column", ["left", "right", "worker", "label", "page"])
def test_a_missing_value(column):
    given = table(page=["p", "p", "q"]).astype(object)
    given.loc["r1", column] = None
    with pytest.raises(ValueError, match=rf"pairs row 1 \(index 'r1'\): {column} is .* missing"):
        CrowdData(features(), given, item_ids=IDS)


@pytest.mark.parametrize("column", ["left", "worker"])
def test_an_id_that_cannot_be_hashed(column):
    with pytest.raises(ValueError, match=f"pairs column '{column}' must be a flat list"):
        crowd(**{column: [["ant"], ["cat"], ["dog"]]})


def test_an_unknown_id():
    with pytest.raises(
        ValueError,
        match=r"row 0 \(index 'r0', 2 such rows\): right is 'emu', not among the item ids",
    ):
        crowd(right=["emu", "ant", "elk"])


@pytest.mark.parametrize("position", [4, -1, 0.5, "0"])
def test_a_position_out_of_range(position):
    left = pd.Series([0, position, 3], dtype=object, index=["r0", "r1", "r2"])
    with pytest.raises(
        ValueError, match=r"row 1 \(index 'r1'\): left is .*, not a position from 0 to 3"
    ):
        CrowdData(features(), table(left=left, right=[1, 2, 1]))


def test_an_item_paired_with_itself():
    with pytest.raises(
        ValueError, match=r"row 2 \(index 'r2'\): left is 'dog', an item paired with it"
    ):
        crowd(right=["bee", "ant", "dog"])


@pytest.mark.parametrize("label", [2, -1, 0.5, "maybe", "2", float("inf")])
def test_a_label_that_is_neither_0_nor_1(label):
    labels = pd.Series([1, label, 0], dtype=object, index=["r0", "r1", "r2"])
    for given in (labels, labels.infer_objects()):
        with pytest.raises(ValueError, match=r"row 1 \(index 'r1'\): label is .*neither 1 nor 0"):
            crowd(label=given)


@pytest.mark.parametrize(
    "labels",
    [
        ["same", "different", "same"],
        [" Same", "DIFFERENT ", "1"],
        ["1.0", "0.0", "1"],
        ["true", "False", True],
        ["Yes", "no", "YES"],
    ],
    ids=str,
)
def test_labels_in_words(labels):
    assert crowd(label=labels).answers.label.tolist() == [1, 0, 1]


def test_labels_that_are_probabilities_are_told_of_grades():
    with pytest.raises(ValueError, match="row 0 .*: label is 0.9, neither .* say so by grades=5"):
        crowd(label=[0.9, 0.1, 1.0])
    with pytest.raises(ValueError, match="label is 2.5, neither 1 nor 0; write 1 .* different$"):
        crowd(label=[2.5, 0.1, 1.0])


@pytest.mark.parametrize("missing", [None, float("nan"), ""])
def test_a_label_that_is_missing_may_say_that_somebody_cannot_tell(missing):
    labels = [1, missing, 0]
    advice = """or drop the row; if "can't tell" is .* "different" to "same" as grades=$"""
    with pytest.raises(ValueError, match=f"label is .*, which is missing; .*{advice}"):
        crowd(label=labels)
    pairs = crowd(label=[1, 1, 0]).pairs.assign(label=labels)
    heard = CrowdData(None, pairs, grades=[0, 1]).answers.label
    assert heard.isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("words", ["can't tell", "Can\u2019t  tell ", "cannot tell", "Unsure"])
def test_a_label_that_says_so_may_be_left_out_or_be_a_grade(words):
    advice = """different; leave such rows out, or, if "can't tell" is .* "same" as grades=$"""
    with pytest.raises(ValueError, match=f"row 1 .*: label is .*, neither 1 nor 0; .*{advice}"):
        crowd(label=["same", words, "different"])
    pairs = crowd(label=[1, 1, 0]).pairs.assign(label=["same", words, "different"])
    heard = CrowdData(None, pairs, grades=["different", "same"]).answers.label
    assert heard.isnan().tolist() == [False, True, False]


def test_one_odd_word_among_many_is_the_one_that_is_named():
    words = ["same", "different"] * 300
    words[417] = "maybe"
    left, right = np.arange(600), np.arange(600) + 1
    pairs = pd.DataFrame({"left": left, "right": right, "worker": "wu", "label": words})
    with pytest.raises(ValueError, match=r"row 417 .*: label is 'maybe', neither 1 nor 0"):
        CrowdData(np.zeros((601, 1)), pairs)


def test_what_was_meant():
    with pytest.raises(ValueError, match=r"left is 'catt', not among .*; did you mean 'cat'\?"):
        crowd(left=["ant", "catt", "dog"])
    pairs = {"left": ["ant"], "right": ["bee"], "workers": ["wu"], "label": [1]}
    with pytest.raises(ValueError, match=r"no column 'worker' .*; did you mean 'workers'\?"):
        CrowdData(features(), pairs, item_ids=IDS)


@pytest.mark.parametrize("column", ["left", "worker", "label", "page"])
def test_blank_texts_are_missing(column):
    """Who is called nothing is nobody, and not one worker who gave all such answers."""
    table = {"left": ["a", "b"], "right": ["b", "c"], "worker": ["w", "v"], "label": ["same"] * 2}
    table |= {"page": ["p", "q"], column: [table.get(column, ["p"])[0], " "]}
    with pytest.raises(ValueError, match=f"pairs row 1 .*: {column} is ' ', which is missing; fil"):
        CrowdData(None, table)


def test_repeated_rows_are_kept_with_a_warning():
    again = {"left": ["ant", "bee", "ant"], "right": ["bee", "ant", "bee"]}
    with pytest.warns(UserWarning, match=r"row 1 \(index 'r1', 2 such rows\): repeats an earlier"):
        data = crowd(**again, worker=["wu"] * 3, label=[1, 1, 1])
    assert data.num_pairs == 3


@pytest.mark.parametrize(
    "difference",
    [
        {"worker": ["a", "b", "c"]},
        {"label": [1, 0, 1], "worker": ["a", "a", "b"]},
        {"page": [1, 2, 3]},
    ],
    ids=["worker", "label", "page"],
)
def test_rows_that_differ_are_no_repeats(difference):
    same = {"left": ["ant"] * 3, "right": ["bee"] * 3, "worker": ["wu"] * 3, "label": [1] * 3}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        crowd(**(same | difference))


def test_data_is_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        crowd().answers = None


def test_repr():
    assert repr(crowd(page=[1, 1, 2])) == (
        "CrowdData(4 items, features float64 [2], 3 answers by 2 workers on 4 items in 2 pages)"
    )
    assert (
        repr(CrowdData(torch.ones(1, 2, 3, dtype=torch.float32)))
        == "CrowdData(1 item, features float32 [2, 3], no answers)"
    )
    assert repr(CrowdData(None, item_ids=IDS)) == "CrowdData(4 items, no features, no answers)"
