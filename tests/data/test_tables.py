"""Tables that users pass: what is read of them, and what is said of a bad row or column."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow
import pytest

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.data.tables import codes_and_ids

from . import animals
from .animals import IDS, crowd, features, table


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


def test_tables_that_pandas_accepts():
    rows = np.array(
        [(0, 1, 5, 1), (2, 1, 5, 0)],
        dtype=[(n, "i8") for n in ("left", "right", "worker", "label")],
    )
    for pairs in (rows, {name: rows[name] for name in rows.dtype.names}):
        assert CrowdData(features(), pairs).answers.left.tolist() == [0, 2]


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


@pytest.mark.parametrize("several", [pd.array, pd.Categorical, pyarrow.array, iter])
def test_ids_in_whatever_holds_several(several):
    answers = {"left": ["ant", "bee"], "right": ["bee", "cat"], "worker": ["wu", "wu"]}
    data = CrowdData(
        None,
        {**answers, "label": ["far", "near"]},
        item_ids=several(["cat", "bee", "ant"]),
        grades=several(["far", "near"]),
    )
    assert data.item_ids.tolist() == ["cat", "bee", "ant"]
    assert data.grade_ids.tolist() == ["far", "near"]
    assert data.item_positions(several(["ant", "cat"])).tolist() == [2, 0]
    labels = {"item": ["a", "b"], "worker": ["wu", "wu"], "label": ["insect", "ant"]}
    named = CrowdData(None, labels=labels, classes=several(["insect", "ant"]))
    assert named.class_ids.tolist() == ["insect", "ant"]


def test_sets_of_ids():
    with pytest.raises(ValueError, match="item_ids is a set, which has no order: pass a list"):
        CrowdData(features(), item_ids={*IDS})


def test_ids_of_some_rows_are_no_positions():
    """Those of a sliced table are a range to pandas, as are positions."""
    some, message = pd.DataFrame(features())[1:], r"not among the item ids \(such as 1, 2, 3\); cor"
    pairs = {"left": [1, 0], "right": [2, 1], "worker": ["a", "a"], "label": [1, 0]}
    with pytest.raises(ValueError, match=rf"row 1 \(index 1\): left is 0, {message}.* row$"):
        CrowdData(some, pairs)
    with pytest.raises(ValueError, match=rf"known row 1 has the item id 0, {message}"):
        CrowdData(some, known={2: "a", 0: "b"})


@pytest.mark.parametrize("column", ["left", "right", "worker", "label"])
def test_a_missing_column(column):
    with pytest.raises(ValueError, match=f"pairs have no column '{column}'"):
        CrowdData(features(), table().drop(columns=column), item_ids=IDS)


PLACEMENTS = {"page": [1, 1], "item": ["ant", "bee"], "worker": ["wu", "wu"], "group": [1, 2]}
LABELS = {"item": ["ant", "bee"], "worker": ["wu", "wu"], "label": ["small", "large"]}


@pytest.mark.parametrize("respell", [str.capitalize, str.upper, " {} ".format, "\ufeff{}".format])
@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("pairs", table()),
        ("placements", PLACEMENTS),
        ("labels", LABELS),
        ("must_link", {"left": ["ant"], "right": ["bee"]}),
        ("likeness", {"left": ["ant"], "right": ["bee"], "text": [0.5]}),
    ],
)
def test_columns_in_other_capitals_or_with_spaces(respell, name, table):
    wrong = pd.DataFrame(table).rename(columns=respell)
    given = {"pairs": animals.table(), name: wrong} if name == "likeness" else {name: wrong}
    with pytest.raises(ValueError, match=f"{name} have no .*; capitals and spaces count: rename"):
        CrowdData(None if name == "likeness" else features(), **given, item_ids=IDS)


def test_a_page_in_capitals_is_not_left_out():
    with pytest.raises(ValueError, match="but 'Page', .* not be read; .* to 'page', or drop"):
        CrowdData(features(), table().assign(Page="a"), item_ids=IDS)
    both = table().assign(page="b", Page="a")
    assert CrowdData(features(), both, item_ids=IDS).page_ids.tolist() == ["b"]


def test_answers_in_capitals_are_no_features():
    with pytest.raises(ValueError, match="as pairs do: pass the table as pairs="):
        CrowdData(table().rename(columns=str.capitalize))


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (
            [("ant", "bee", "wu", 1)],
            r"no column 'left', 'right', 'worker' or 'label' \(columns: \[0, 1, 2, 3\]\); name the "
            r"columns: pandas.DataFrame\(rows, columns=\['left', 'right', 'worker', 'label'\]\)",
        ),
        (
            table().drop(columns="worker"),
            "no column 'worker' .*; add it, with the same name in every row",
        ),
        (
            table().rename(columns=str.title),
            "no column 'left', 'right', 'worker' or 'label' .* rename 'Left' to 'left', 'Right' to",
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


def test_something_that_is_no_table():
    with pytest.raises(ValueError, match="pairs are not a table"):
        CrowdData(features(), "answers.csv", item_ids=IDS)


@pytest.mark.parametrize("column", ["left", "right", "worker", "page"])
def test_a_missing_value(column):
    given = table(page=["p", "p", "q"]).astype(object)
    given.loc["r1", column] = None
    with pytest.raises(ValueError, match=rf"pairs row 1 \(index 'r1'\): {column} is missing"):
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


def test_what_was_meant():
    with pytest.raises(ValueError, match=r"left is 'catt', not among .*; did you mean 'cat'\?"):
        crowd(left=["ant", "catt", "dog"])
    pairs = {"left": ["ant"], "right": ["bee"], "workers": ["wu"], "label": [1]}
    with pytest.raises(ValueError, match=r"no column 'worker' .*; did you mean 'workers'\?"):
        CrowdData(features(), pairs, item_ids=IDS)


@pytest.mark.parametrize("column", ["left", "worker", "page"])
def test_blank_texts_are_missing(column):
    """Who is called nothing is nobody, and not one worker who gave all such answers."""
    table = {"left": ["a", "b"], "right": ["b", "c"], "worker": ["w", "v"], "label": ["same"] * 2}
    table |= {"page": ["p", "q"], column: [table.get(column, ["p"])[0], " "]}
    with pytest.raises(ValueError, match=f"pairs row 1 .*: {column} is missing; fil"):
        CrowdData(None, table)
