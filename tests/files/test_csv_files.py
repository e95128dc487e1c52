"""CSV files hold no cell that a spreadsheet would run, and all else as it is."""

from __future__ import annotations

import io

import pandas as pd
import pytest

from pyro_crowdclust.files.csv_files import as_written, write_csv


def written(frame: pd.DataFrame, **options) -> pd.DataFrame:
    file = io.StringIO()
    write_csv(frame, file, **options)
    file.seek(0)
    return pd.read_csv(file, dtype=str, keep_default_na=False)


@pytest.mark.parametrize("cell", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\tx"])
def test_formulas_are_texts(cell):
    index = pd.Index([cell, "ann"], name=cell)
    found = written(pd.DataFrame({cell: [cell, "b"]}, index))
    assert found.columns.tolist() == [f"'{cell}", f"'{cell}.1"]
    assert found.iloc[0].tolist() == [f"'{cell}"] * 2
    assert found.iloc[1].tolist() == ["ann", "b"]


def test_a_carriage_return_begins_no_row():
    file = io.StringIO()
    write_csv(pd.DataFrame({"a": ["\r=1", "b\r\n=1"]}), file, index=False)
    assert file.getvalue() == 'a\n"\'\n=1"\n"b\n=1"\n'


def test_numbers_and_other_texts_stay():
    frame = pd.DataFrame(
        {"a": [-1.5, 2.0], "b": ["-3", "+4e5"], "c": ["a-b", "1=1"], "d": [None, True]}
    )
    file = io.StringIO()
    frame.to_csv(file, index=False)
    file.seek(0)
    pd.testing.assert_frame_equal(
        written(frame, index=False), pd.read_csv(file, dtype=str, keep_default_na=False)
    )


def test_several_levels():
    index = pd.MultiIndex.from_tuples([("=a", 1), ("b", -2)], names=["w", "c"])
    found = written(pd.DataFrame({"x": [1, 2]}, index))
    assert found.columns.tolist() == ["w", "c", "x"]
    assert found["w"].tolist() == ["'=a", "b"]
    assert found["c"].tolist() == ["1", "-2"]


def test_the_frame_is_left_as_it_is():
    frame = pd.DataFrame({"a": ["=1"]}, index=["@b"])
    write_csv(frame, io.StringIO())
    assert frame.loc["@b", "a"] == "=1"


@pytest.mark.parametrize("cell", ["=1+1", "+cmd", "@ann", "-x", "-3", "'tis", "a", ""])
def test_cells_come_back_as_they_were(cell):
    found = written(pd.DataFrame({"a": [cell]}), index=False)
    assert as_written(found["a"][0]) == cell
