"""What columns hold is told from their values, kept, and applied to new tables."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data import Columns

NAN = np.nan


def kind_of(values, **options) -> str:
    return Columns.of(pd.DataFrame({"x": values}), **options).kinds[0]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1.5, 2.25, -3.0], "real"),
        ([1.5, None, -3.0], "real"),
        ([14.0, 15.0, 0.0, 2.0], "real"),  # measured, and whole by chance
        ([14, 15, 13, 20], "real"),  # counts begin at 0
        ([2000, 0, 90_000, 1200], "real"),  # sums of money
        ([-1, 0, 1, 2], "real"),
        ([0, 1, 3, 0, 2, 7], "count"),
        ([0, 1, None, 0, 2, 7], "count"),  # which pandas keeps as floating point
        (pd.array([0, 1, None, 0, 2, 7], dtype="Int64"), "count"),
        ([2, 2, 2, 2, 2, 2, 2, 0], "real"),  # varies less than counts do
        ([0, 1, 1, 0], "binary"),
        ([0.0, 1.0, None], "binary"),
        ([1, 1, 1], "real"),  # says nothing
        ([True, False, True], "binary"),
        ([True, False, None], "binary"),
        (pd.array([True, None, False], dtype="boolean"), "binary"),
        (["yes", "no", None, "yes"], "binary"),
        (pd.array(["yes", "no", None], dtype="string"), "binary"),
        (["red", "green", "blue", "red"], "category"),
        (["red"] * 3, "category"),
        (pd.Categorical(["b", "a", "b"], categories=["b", "a"]), "binary"),
        (pd.Categorical([1, 3, 2, None]), "category"),
    ],
    ids=str,
)
def test_kinds_are_recognized(values, kind):
    assert kind_of(values) == kind


def test_everything_becomes_numbers():
    frame = pd.DataFrame(
        {
            "real": [1.5, NAN, 3.0],
            "flag": pd.array([True, None, False], dtype="boolean"),
            "text": ["no", "yes", None],
            "kind": pd.Categorical(["low", "high", "mid"], ["low", "mid", "high"]),
            "number": [7, 9, 7],
        }
    )
    columns = Columns.of(frame, {"number": "category"})
    expected = [[1.5, 1, 0, 0, 0], [NAN, NAN, 1, 2, 1], [3, 0, NAN, 1, 0]]
    np.testing.assert_array_equal(columns.encode(frame), expected)
    # In another order, beside other columns, and as plain objects.
    moved = frame.astype(object)[frame.columns[::-1]].assign(note="x")
    np.testing.assert_array_equal(columns.encode(moved), expected)
    assert columns.table().loc["kind"].tolist() == ["category", "low, mid, high"]
    assert str(columns) == "1 real, 2 binary, 2 category"


def test_numbers_keep_their_precision():
    frame = pd.DataFrame({"x": np.array([1.5, 2.5], dtype=np.float32)})
    assert CrowdData(frame).features.dtype == np.float32


def test_what_a_column_holds_can_be_said():
    values = [0, 1, 3, 0, 2, 7]
    for kind in ("real", "count", "category"):
        assert kind_of(values, kinds={"x": kind}) == kind
    assert kind_of(["a", "b"], kinds={"x": "category"}) == "category"
    assert kind_of([f"name {i}" for i in range(30)], kinds={"x": "category"}) == "category"


@pytest.mark.parametrize(
    ("values", "kinds", "message"),
    [
        (pd.to_datetime(["2020-01-01", "2021-05-06"]), {}, "column 'x' holds dates: turn what"),
        (pd.to_timedelta([1, 2], unit="D"), {}, "'x' holds spans of time: .*total_seconds"),
        (["2020-01-01", "2021-05-06 10:00"], {}, "column 'x' holds dates"),
        (["3/4/99", "12/11/01"], {}, "column 'x' holds dates"),
        ([datetime.date(2020, 1, 1), None], {}, r"column 'x' holds date \(dtype object\)"),
        (
            [f"name {i}" for i in range(30)],
            {},
            "30 different texts in 30 cells, which looks like .* alike the texts of pairs are",
        ),
        (["1.5", "2", "unknown"], {}, "numbers written as texts, and 'unknown' among them"),
        (["1,5", "2,25"], {}, "numbers written as texts, and '1,5' among them: convert them to"),
        (["10%", "20%", "10%"], {}, "numbers written as texts, and '10%' among them: convert"),
        (["$1,200", "$300"], {}, "numbers written as texts"),
        (["4.900,00", "900,00"] * 9, {}, "numbers written as texts, and '4.900,00' among them"),
        (["1,234,567.80", "3"], {}, "numbers written as texts, and '1,234,567.80' among them"),
        (["1 234,5", "1'234.5"], {}, "numbers written as texts, and '1 234,5' among them"),
        ([1.5, "n/a", 2], {}, "holds numbers, and 'n/a' among them: make all of them numbers"),
        (["-", 1.5], {}, "column 'x' holds numbers, and '-' among them"),
        ([True, 2.5], {}, "column 'x' holds numbers, and True among them"),
        (["a", {1, 2}], {}, r"column 'x' holds set \(dtype object\): encode it as numbers or tex"),
        (
            [[1.0, 2.0], [3.0, 4.0]],
            {},
            r"list \(dtype object\): make a column of every number in a cell",
        ),
        (list(np.eye(2)), {}, r"column 'x' holds ndarray .* as numpy.stack\(frame\[name\]\) does"),
        ([1 + 2j, 1.0], {}, "column 'x' holds complex"),
        ([1.0, np.inf], {}, "column 'x' holds infinite numbers"),
        ([1, 2], {"y": "real"}, "kinds name the column 'y', which the features do not have"),
        (
            [1, 2],
            {"x": "number"},
            "column 'x' holds 'number', but a kind must be one of real, count",
        ),
        ([1, 2], {"x": "reel"}, "did you mean 'real'"),
        ([1, 2], {"x": "binary"}, "said to hold 0 and 1, but holds 2.0: say another kind"),
        ([1, -2], {"x": "count"}, "said to hold counts 0, 1, 2, ..., but holds -2.0"),
        (["a", "b"], {"x": "count"}, "said to be count, but holds values .* .such as 'a'."),
        (["a", "b", "c"], {"x": "binary"}, "said to be binary, but holds 3 different values"),
    ],
)
def test_what_cannot_be_read(values, kinds, message):
    with pytest.raises(ValueError, match=message):
        Columns.of(pd.DataFrame({"x": values}), kinds)


def test_empty_columns_are_left_out():
    frame = pd.DataFrame({"x": [1.5, 2.5], "none": [None, None], "nan": np.nan, "town": ["a", "b"]})
    with pytest.warns(UserWarning, match="2 feature columns left out, .* empty: 'none', 'nan'"):
        data = CrowdData(frame, kinds={"none": "category"})
    assert data.feature_names.tolist() == ["x", "town"]
    assert data.num_missing == 0
    # A table of new items may have them, empty or not, or lack them.
    for new in (frame, frame.assign(none="b"), frame[["town", "x"]]):
        np.testing.assert_array_equal(data.columns.encode(new), [[1.5, 0], [2.5, 1]])
    # Columns that are told by their position stay.
    assert CrowdData(pd.DataFrame([[1.5, None], [2.5, None]])).num_missing == 2
    with pytest.raises(ValueError, match="all features are missing .NaN.: pass features, or None"):
        CrowdData(frame[["none", "nan"]])


def test_blank_texts_are_missing():
    """As a file would have them, whatever the table was made by."""
    frame = pd.DataFrame({"town": ["Rome", "", "Bari"], "age": [31.5, " ", 52], "x": [0.5, 1.5, 1]})
    data = CrowdData(frame)
    assert data.columns.kinds == ("binary", "real", "real")
    assert data.num_missing == 2
    np.testing.assert_array_equal(data.columns.encode(frame[1:2]), [[NAN, NAN, 1.5]])


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("x", range(1, 21)),
        *((name, np.arange(20) ** 2) for name in ("ID", "rownames", "user_id", "userId")),
    ],
)
def test_columns_that_look_like_ids(name, ids):
    frame = pd.DataFrame({name: ids, "height": np.linspace(0, 1, 20)})
    with pytest.warns(UserWarning, match=f"feature column '{name}' looks like ids of the rows"):
        CrowdData(frame)
    # Warnings are errors where there is nothing to warn of.
    CrowdData(frame, kinds={name: "real"})
    CrowdData(frame.set_index(name))
    CrowdData(frame.iloc[[3, 1, 2] * 5, :].reset_index(drop=True))


def test_texts_with_a_unit_are_called_so():
    frame = pd.DataFrame({"wing": [f"{300 + row} mm" for row in range(30)]})
    message = "'wing' holds numbers with a unit, such as '300 mm': keep the numbers alone"
    with pytest.raises(ValueError, match=message):
        CrowdData(frame)


def test_new_tables():
    columns = CrowdData(pd.DataFrame({"a": [0.5, 1.5], "town": ["Rome", "Bari"]})).columns
    with pytest.warns(UserWarning, match=r"'town' holds 'Roma', which .*: 1 such cell .* 'Rome'"):
        found = columns.encode(pd.DataFrame({"a": [1.0], "town": ["Roma"]}))
    np.testing.assert_array_equal(found, [[1.0, NAN]])
    with pytest.raises(
        ValueError, match="features row 0 .index 0.: a is 'x', but those of the fit were numbers"
    ):
        columns.encode(pd.DataFrame({"a": ["x"], "town": ["Rome"]}))
    with pytest.raises(ValueError, match="lack 1 column .*: 'town'"):
        columns.encode(pd.DataFrame({"a": [1.0]}))
    with pytest.raises(ValueError, match="fit used a table with categories .*pass a data frame"):
        CrowdData(np.ones((1, 2)), kinds=columns)
    flags = Columns.of(pd.DataFrame({"x": [0, 1]}))
    with pytest.raises(ValueError, match="'x' holds infinite numbers"):
        flags.encode(pd.DataFrame({"x": [np.inf]}))


def test_numbers_that_no_column_of_the_fit_could_hold_are_missing():
    """A word that was rare among the rows of the fit is more frequent in a new row."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"rare": rng.integers(2, size=30), "often": rng.poisson(3, 30)})
    columns = CrowdData(frame, kinds={"often": "count"}).columns
    assert columns.kinds == ("binary", "count")
    new = pd.DataFrame({"rare": [NAN, 2, 1], "often": [5, 0.5, -1]})
    message = (
        r"row 1 \(index 1\): rare is 2.0, but those of the fit were 0 and 1: 3 such cells treated "
        "as empty, also in 'often'; correct them, or fit anew"
    )
    with pytest.warns(UserWarning, match=message):
        found = columns.encode(new)
    np.testing.assert_array_equal(found, [[NAN, 5], [NAN, NAN], [1, NAN]])


def short(values) -> torch.Tensor:
    return torch.tensor(values).bfloat16()


@pytest.mark.parametrize("convert", [np.asarray, torch.tensor, short])
def test_arrays_are_real_unless_all_are_zeros_and_ones(convert):
    assert CrowdData(convert([[0.0, 1.0], [1.0, 1.0]])).columns.kinds == ("binary", "real")
    assert CrowdData(convert([[0.0, NAN], [1.0, 1.0]])).columns.kinds == ("binary", "real")
    assert CrowdData(convert([[0.0, 1.0], [1.0, 3.0]])).columns is None
    said = CrowdData(convert([[0.0, 1.0], [1.0, 3.0]]), kinds={1: "count"})
    assert said.columns.kinds == ("real", "count")
    with pytest.raises(ValueError, match="column 1 of an array is a category: pass a data frame"):
        CrowdData(convert([[0.0, 1.0], [1.0, 3.0]]), kinds={1: "category"})
    with pytest.raises(ValueError, match=r"items have features of shape \[1, 2\]: leave kinds out"):
        CrowdData(np.ones((2, 1, 2)), kinds={0: "real"})
    with pytest.raises(ValueError, match="kinds are given without features"):
        CrowdData(None, item_ids=[1], kinds={0: "real"})


def test_numbers_that_are_kept_as_objects_are_numbers():
    frame = pd.DataFrame({"price": [Decimal("1.5"), None, 2], "big": [2**70, 1, 2]}, dtype=object)
    data = CrowdData(frame)
    assert data.columns.kinds == ("real", "real")
    wanted = [[1.5, 2.0**70], [np.nan, 1.0], [2.0, 2.0]]
    np.testing.assert_array_equal(data.features, wanted)
    np.testing.assert_array_equal(data.columns.encode(frame[:1]), wanted[:1])


def test_what_is_masked_is_missing():
    data = CrowdData(np.ma.masked_greater([[1, 2], [3, 9]], 5))
    np.testing.assert_array_equal(data.features, [[1, 2], [3, np.nan]])
    assert data.num_missing == 1


def test_all_columns_that_cannot_be_read_are_named_at_once():
    """Marks of missing cells, ids and dates come together, and are mended together."""
    rows = range(30)
    frame = pd.DataFrame(
        {
            "age": np.linspace(20, 60, 30),
            "pulse": [".", *map(str, rows[1:])],
            "name": [f"name {row}" for row in rows],
            "born": ["1990-01-02"] * 30,
        }
    )
    with pytest.raises(ValueError, match="leave missing ones empty") as caught:
        CrowdData(frame)
    assert "'pulse' holds numbers written as texts, and '.' among them" in str(caught.value)
    assert str(caught.value).endswith("2 other columns cannot be read either: 'name', 'born'")
    with pytest.raises(ValueError, match=r"'name' holds .*\. 1 other column cannot .*: 'born'$"):
        CrowdData(frame.drop(columns="pulse"))
    assert len(CrowdData(frame[["age"]]).columns) == 1


def test_a_table_of_names_alone_is_refused():
    with pytest.raises(ValueError, match=r"shape \(0, 2\); pass at least one row"):
        CrowdData(pd.DataFrame(columns=["a", "b"]))


@pytest.mark.parametrize("names", [[10, 20], [("size", 1), ("size", 2)], ["a", 3]])
def test_names_that_are_no_texts_tell_columns_apart(names):
    frame = pd.DataFrame([[1.5, 200.5], [2.5, 100.5]])
    frame.columns = pd.Index(names, tupleize_cols=isinstance(names[0], tuple))
    data = CrowdData(frame)
    assert data.feature_names.tolist() == [*map(str, names)]
    np.testing.assert_array_equal(data.columns.encode(frame.iloc[:, ::-1]), data.features)
    with pytest.raises(ValueError, match="lack 1 column that the fit used"):
        data.columns.encode(frame.iloc[:, [0, 0]].set_axis([names[0], "other"], axis=1))


def test_positions_are_names_where_there_are_no_others():
    frame = pd.DataFrame([[1.5, 200.5], [2.5, 100.5]])
    data = CrowdData(frame)
    assert data.feature_names is None
    np.testing.assert_array_equal(data.columns.encode(frame[[1, 0]]), frame)
    named = frame.set_axis(["a", "b"], axis=1)
    np.testing.assert_array_equal(data.columns.encode(named), frame)
    short = frame.set_axis([0, 5], axis=1)
    np.testing.assert_array_equal(data.columns.encode(short), frame)
