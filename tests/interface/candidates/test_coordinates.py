"""Coordinates of tables as they are: gaps do not count, and other kinds keep their values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.spatial
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.interface.candidates.coordinates import (
    is_real,
    location_and_scale,
    near_landmarks,
    power_transformed,
    standardized,
    without_redundant,
)
from pyro_crowdclust.interface.candidates.rounding import unrounded


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    smokes = np.resize([True, False, False], 60)
    return pd.DataFrame({"skewed": rng.lognormal(size=60), "smokes": smokes})


@pytest.mark.parametrize("make", [standardized, power_transformed])
def test_gaps_do_not_count(table, make):
    gappy = pd.DataFrame({"skewed": [*table["skewed"], None, None], "other": np.arange(62.0)})
    part = make(CrowdData(gappy)).latent(torch.tensor(gappy.to_numpy()))
    whole = make(CrowdData(table[["skewed"]])).latent(torch.tensor(table[["skewed"]].to_numpy()))
    torch.testing.assert_close(part[:60, :1], whole)
    assert bool(part[60:, 0].isnan().all())
    assert not bool(part[:, 1].isnan().any())


@pytest.mark.parametrize("make", [standardized, power_transformed])
def test_other_kinds_keep_their_values(table, make):
    data = CrowdData(table)
    assert is_real(data).tolist() == [True, False]
    rows = data.rows(torch.arange(60))
    torch.testing.assert_close(make(data).latent(rows)[:, 1], rows[:, 1].double())


@pytest.mark.parametrize("make", [standardized, power_transformed])
def test_a_missing_feature_has_no_volume(table, make):
    """The Jacobian of the coordinates that are there, by autograd."""
    table["skewed"] = table["skewed"].where(np.arange(60) != 3)
    data = CrowdData(table)
    emission, rows = make(data), data.rows(torch.arange(60)).double()
    jacobian = torch.autograd.functional.jacobian(
        lambda row: emission.latent(row[None])[0], rows[5]
    )
    torch.testing.assert_close(emission.log_volume(rows)[5], jacobian[0, 0].log())
    assert float(emission.log_volume(rows)[3]) == 0


def test_only_real_numbers_are_spread(table):
    table["rounded"] = np.resize([0.5, 1.0, np.nan, 2.0], 60)
    data = CrowdData(table, kinds={"rounded": "real"})
    before, after = data.features, unrounded(data).features
    np.testing.assert_array_equal(after[:, :2], before[:, :2])
    np.testing.assert_array_equal(np.isnan(after), np.isnan(before))
    away = np.abs(after[:, 2] - before[:, 2])
    assert 0 < np.nanmax(away) <= 0.25


def test_real_columns_that_never_vary_are_left_out(table):
    """Through gaps, too; a constant of another kind keeps the place that its codes need."""
    table["constant"] = np.where(np.arange(60) % 7 == 0, np.nan, 4.5)
    table["empty but for one"] = np.where(np.arange(60) == 3, 2.5, np.nan)
    table["agrees"] = True
    data = CrowdData(table, kinds={"agrees": "binary"})
    emission = without_redundant(standardized, data)
    assert emission.own_features(5) == [0, 1, 4]
    rows = data.rows(torch.arange(60))
    assert emission.latent(rows).shape == (60, 3)
    constant = CrowdData(np.full((9, 2), 3.0))
    assert without_redundant(standardized, constant).latent_size(2) == 2


@pytest.mark.parametrize("make", [standardized, power_transformed])
def test_a_feature_that_is_missing_everywhere_is_left_out(table, make):
    rows = np.column_stack([table["skewed"], np.full(60, np.nan)])
    data = CrowdData(rows)
    latent = without_redundant(make, data).latent(torch.from_numpy(rows))
    expected = make(CrowdData(rows[:, :1])).latent(torch.from_numpy(rows[:, :1]))
    torch.testing.assert_close(latent, expected)


@pytest.mark.parametrize("factor", [1e-310, 1e-200, 1e99])
def test_powers_do_not_depend_on_the_unit(table, factor):
    rows = torch.tensor(table[["skewed"]].to_numpy())
    found = [power_transformed(CrowdData(of)).latent(of) for of in (rows, factor * rows)]
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("factor", [1e-310, 1e-200, 1.0, 1e99])
def test_units_of_any_size_are_taken_out(factor):
    rows = np.random.default_rng(0).normal(size=(50, 2)) * factor
    location, scale = location_and_scale(CrowdData(rows), torch.ones(2, dtype=torch.bool))
    standardized = (torch.from_numpy(rows) - location) / scale
    np.testing.assert_allclose(standardized.std(0, correction=0), 1.0)
    np.testing.assert_allclose(standardized.mean(0), 0.0, atol=1e-9)


def test_landmarks_are_among_the_items_and_no_more_than_these():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(300, 2))
    emission = near_landmarks(CrowdData(points), Identity(), 20, 0.5)
    distance = scipy.spatial.distance.pdist(points)
    assert emission.landmarks.shape == (20, 2)
    assert emission.width == pytest.approx(np.median(distance) / 2, rel=0.1)
    assert scipy.spatial.distance.cdist(emission.landmarks, points).min(1).max() < 0.7
    for few, number in ((np.repeat(points[:3], 4, axis=0), 3), (np.ones((5, 2)), 1)):
        found = near_landmarks(CrowdData(few), Identity(), 20, 1.0)
        assert len(found.landmarks) == number
        assert found.latent(torch.from_numpy(few)).isfinite().all()
