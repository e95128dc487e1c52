"""Directions of many columns: compared in any units, and led astray by no number and no row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.interface.candidates.coordinates import standardized
from pyro_crowdclust.interface.candidates.directions import (
    all_as_numbers,
    beyond_one_gaussian,
    clipped,
    in_common_units,
    in_many_columns,
    lengths_differ,
    projected,
)

RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=(300, 60))
KIND = RNG.integers(0, 6, 300)
GROUPED = NORMAL + RNG.normal(size=(6, 60))[KIND]
LOUD = np.exp(0.7 * RNG.normal(size=(300, 1)))


@pytest.mark.parametrize(
    ("rows", "are_unlike"),
    [
        (NORMAL, False),
        (GROUPED, False),
        (GROUPED * LOUD, True),
        (1e3 * GROUPED * LOUD, True),
        (np.where(RNG.random((300, 60)) < 0.1, np.nan, GROUPED * LOUD), True),
        (np.ones((30, 60)), False),
        (NORMAL[:1], False),
    ],
    ids=["normal", "grouped", "loud", "units", "gaps", "constant", "one row"],
)
def test_lengths_are_unlike_if_they_explain_heavy_tails(rows, are_unlike):
    assert lengths_differ(CrowdData(rows)) == are_unlike


def test_lengths_are_of_the_real_columns_alone():
    hair = np.array(["red", "fair", "dark"])[KIND % 3]
    for rows, are_unlike in ((GROUPED * LOUD, True), (GROUPED, False)):
        table = pd.DataFrame(rows).add_prefix("wave ")
        data = CrowdData(table.assign(hair=hair))
        assert lengths_differ(CrowdData(table)) == lengths_differ(data) == are_unlike
    features = data.rows(torch.arange(300))
    for units in (in_common_units, standardized):
        alone = in_many_columns(units, True, CrowdData(table)).latent(features[:, :60])
        torch.testing.assert_close(in_many_columns(units, True, data).latent(features), alone)
    assert not lengths_differ(CrowdData(pd.DataFrame({"hair": hair})))


def test_numbers_far_away_widen_no_column():
    rows = NORMAL.copy()
    rows[3, 5], rows[4, 5], rows[5, 6] = 1e6, np.nan, -1e9
    data = CrowdData(rows)
    emission = clipped(data, standardized(data))
    units = emission.features(emission.latent(torch.from_numpy(rows)))
    near = np.abs(NORMAL) < 2
    near[[3, 4, 5], [5, 5, 6]] = False
    np.testing.assert_allclose(units.numpy()[near], NORMAL[near], atol=1e-6)
    # After three rounds one in three hundred is still seen, and far less far away.
    assert 3 < float(units[3, 5]) < 1e4
    assert bool(units[4, 5].isnan())


def test_other_kinds_are_not_clipped():
    rare = RNG.random(300) < 0.02
    table = (
        pd.DataFrame(GROUPED)
        .add_prefix("wave ")
        .assign(rare=rare, hair=np.where(rare, "red", "fair"))
    )
    data = CrowdData(table, kinds={"hair": "category"})
    rows = data.rows(torch.arange(300))
    points = all_as_numbers(data, equal_length=False).latent(rows)
    assert points.shape == (300, 60 + 1 + 2)
    assert points[:, -2:].unique().tolist() == [0, 1]
    assert len(points[:, 60].unique()) == 2
    assert in_many_columns(in_common_units, False, data).latent(rows).shape == (300, 60)


@pytest.mark.parametrize("units", [in_common_units, standardized])
def test_rows_of_equal_length_are_those_of_loud_ones(units):
    """But for the units, which are measured on other rows."""
    rows = 5 + GROUPED
    loud = rows * LOUD
    emission = in_many_columns(units, True, CrowdData(loud))
    inner = units(CrowdData(loud))
    # Zero is where no feature says anything, wherever the mean is.
    away = emission.latent(torch.from_numpy(loud)) + inner.location / inner.scale
    lengths = torch.linalg.vector_norm(away, dim=1)
    torch.testing.assert_close(lengths, lengths.mean().expand(300))
    found = np.corrcoef(away.numpy())
    expected = np.corrcoef(rows / inner.scale.numpy())
    assert np.abs(found - expected).mean() < 0.1


def test_one_gaussian_has_a_density_on_directions_in_any_units():
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(50, 8)) * np.arange(1, 9))
    found = []
    for features in (rows, 100 * rows):
        data = CrowdData(features)
        emission = projected(data, in_common_units(data), 3)
        points = emission.latent(features)
        covariance = torch.cov(points.mT, correction=0)
        one = torch.distributions.MultivariateNormal(points.mean(0), covariance)
        found.append(beyond_one_gaussian(emission, features))
        assert found[-1] == pytest.approx(-float(one.log_prob(points).mean()))
    assert found[0] == pytest.approx(found[1])


def test_directions_in_which_nothing_varies_are_none():
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(50, 2)))
    flat = torch.cat([rows, torch.zeros(50, 6), rows[:, :1]], 1)
    for features, number in ((flat, 2), (torch.ones(50, 9).double(), 1), (flat[:1], 1)):
        data = CrowdData(features)
        emission = projected(data, standardized(data), 3)
        assert emission.latent_size(9) == number
        assert np.isfinite(beyond_one_gaussian(emission, features))


@pytest.mark.parametrize("unit", [1.0, 3.0])
def test_directions_are_whitened_in_whatever_units_they_are(unit):
    """Also where the first one deviates by 1, and where nothing varies."""
    points = unit * np.array([[-1.0, 0.1], [0.0, -0.2], [1.0, 0.1]])
    emission = projected(CrowdData(points), Identity(), 2, whiten=True)
    deviations = emission.latent(torch.from_numpy(points)).std(0)
    torch.testing.assert_close(deviations, torch.ones_like(deviations))
    same = projected(CrowdData(np.ones((3, 2))), Identity(), 2, whiten=True)
    assert same.scale.tolist() == [1.0]


def test_numbers_of_the_few_items_that_have_any_are_no_outliers():
    rng = np.random.default_rng(0)
    columns = np.zeros((400, 3))
    columns[:20, 0] = rng.normal(5.0, 0.5, 20)  # a word of one text in twenty
    columns[0, 0] = 500.0
    columns[:300, 1] = rng.normal(size=300)  # zero is the number of a fourth of the items only
    columns[:, 2] = 7.0
    made = clipped(CrowdData(columns), Identity())
    found = made.latent(torch.as_tensor(columns))
    assert torch.equal(found[1:20, 0], torch.as_tensor(columns[1:20, 0]))
    assert found[0, 0] < 300
    assert (found[20:, 0] == 0).all()
    assert (found[:, 2] == 7).all()
    spread = columns[:, 1].std()
    assert 2 * spread < found[:, 1].max() < 3.2 * spread


@pytest.mark.parametrize("shared", [0.0, 7.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    ("others", "wild"),
    [([3.0, 4.0], [1e6]), ([3.0], [1e6]), (list(RNG.normal(5.0, 0.5, 18)), [1e4, 1e4])],
    ids=["two", "one", "eighteen"],
)
def test_wild_numbers_of_few_items_are_clipped(others, wild, sign, shared):
    numbers = shared + sign * torch.tensor([0.0] * 80 + others + wild, dtype=torch.float64)
    alone = torch.zeros_like(numbers)
    alone[-1] = 1e6  # a single one may be a word of one text, in large units
    rows = torch.stack([numbers, alone], 1)
    found = clipped(CrowdData(rows), Identity()).latent(rows)
    assert torch.equal(found[: -len(wild), 0], rows[: -len(wild), 0])
    assert float((found[-1, 0] - shared).abs()) < 31
    assert torch.equal(found[:, 1], rows[:, 1])
