"""Features are read as they are: finite, and their gaps counted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from pyro_crowdclust.data import Columns, CrowdData
from pyro_crowdclust.data import features as features_module


def test_features_of_a_tensor_carry_no_gradient():
    assert not CrowdData(torch.ones(2, 2, requires_grad=True)).rows(torch.tensor([0])).requires_grad


def test_a_memory_map_is_not_copied(tmp_path):
    array = np.memmap(tmp_path / "features", dtype=np.float32, mode="w+", shape=(5, 3))
    array[:] = np.arange(15).reshape(5, 3)
    array = np.memmap(tmp_path / "features", dtype=np.float32, mode="r", shape=(5, 3))
    data = CrowdData(array)
    assert data.features is array
    assert data.rows(torch.tensor([4])).tolist() == [[12.0, 13.0, 14.0]]


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "dia"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool])
def test_sparse_features_are_those_of_the_dense_table(layout, kind, dtype):
    table = np.array([[0, 2, 0], [1, 0, 0]], dtype)
    data = CrowdData(getattr(sparse, f"{layout}_{kind}")(table))
    assert type(data.features) is np.ndarray
    assert data.features.dtype == dtype
    assert data.features.tolist() == table.tolist()


def test_sparse_columns_of_a_data_frame():
    data = CrowdData(pd.DataFrame.sparse.from_spmatrix(sparse.csr_array([[0.0, 2.5], [1.5, 0.0]])))
    assert data.rows(torch.arange(2)).tolist() == [[0.0, 2.5], [1.5, 0.0]]


def test_sparse_features_that_are_too_many(monkeypatch):
    monkeypatch.setattr(features_module, "_MAX_DENSE", 5)
    with pytest.raises(ValueError, match=r"\(2, 3\).* 6 numbers, of at most 5 .*TruncatedSVD"):
        CrowdData(sparse.csr_array((2, 3)))
    assert CrowdData(sparse.csr_array(np.eye(2))).num_features == 2


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
        ([[1.0], [2.0, 3.0]], "features are a list that cannot become an array .*: give every row"),
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
