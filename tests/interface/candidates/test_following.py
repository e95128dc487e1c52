"""Columns that follow from others tell nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import normalized_mutual_info_score

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.candidates.atoms import atoms_of, beside_atoms
from pyro_crowdclust.interface.candidates.coordinates import (
    power_transformed,
    standardized,
    without_redundant,
)
from pyro_crowdclust.interface.candidates.following import add_information

from ..small_choices import small


@pytest.fixture
def parts():
    return np.random.default_rng(0).lognormal(size=(200, 4))


def test_totals_shares_and_other_units_follow(parts):
    for others in (
        parts.sum(1, keepdims=True),
        (0.3 * parts[:, :2]).round(2),
        np.column_stack([parts[:, 1] - parts[:, 3], parts @ [1, 2, 0, 1]]),
    ):
        columns = np.column_stack([parts, others])
        assert add_information(columns).sum() == 4
        assert add_information(columns[:, ::-1]).sum() == 4
    assert add_information(parts / parts.sum(1, keepdims=True)).sum() == 3


def test_what_adds_something_is_kept(parts):
    rng = np.random.default_rng(1)
    for columns in (
        load_iris().data,
        load_wine().data,
        np.column_stack([parts, parts.sum(1) + 0.2 * rng.normal(size=200)]),
        np.column_stack([parts, parts.prod(1)]),
        rng.normal(size=(60, 40)),
    ):
        assert add_information(columns).all()


def test_rows_far_away_make_no_columns_alike(parts):
    """Codes of what was not measured, in all columns at once."""
    parts[::50] = -9999
    assert add_information(parts).all()
    twice = np.column_stack([parts, parts[:, 0]])
    assert add_information(twice).sum() == 4
    twice[7, 4] = 9999  # in which the two differ
    assert add_information(twice).all()


def test_rows_with_gaps_do_not_count(parts):
    columns = np.column_stack([parts, parts.sum(1)])
    columns[::3, 2] = np.nan
    assert add_information(columns).sum() == 4
    columns[:, 2] = np.nan
    assert add_information(columns).all()


def test_columns_in_other_units_make_no_fewer_clusters():
    rng, kinds = np.random.default_rng(3), np.arange(150) % 3
    degrees = 1.6 * rng.normal(size=(3, 4))[kinds] + rng.normal(size=(150, 4))
    data = CrowdData(np.column_stack([degrees, 1.8 * degrees[:, :2] + 32]))
    result = small(data, 3, 2, forms=1).fit(num_starts=1, progress=False)
    assert normalized_mutual_info_score(kinds, result.assignments) > 0.95
    assert result.components.shape[1] == 4


def test_what_columns_that_follow_are_worth_has_no_part_in_the_elbo(parts):
    """Whatever the coordinates are: a total under a power has no density."""
    data = CrowdData(np.column_stack([parts, parts.sum(1)]))
    rows = data.rows(torch.arange(200))
    for make in (standardized, power_transformed):
        emission = without_redundant(make, data)
        kept = emission.own_features(5)
        alone = make(CrowdData(data.features[:, kept]))
        torch.testing.assert_close(emission.log_volume(rows), alone.log_volume(rows[:, kept]))


def test_of_parts_that_are_often_zero_the_total_follows(parts):
    """Wherever it stands, also where no item has all parts."""
    rows, some = np.arange(200), parts.copy()
    parts[np.random.default_rng(1).random(parts.shape) < 0.5] = 0
    parts[rows, rows % 4], parts[rows, rows % 3] = 0, some[rows, rows % 3]
    parts[rows % 4 == rows % 3, 3] = 0
    data = CrowdData(np.column_stack([parts.sum(1), parts]))
    assert atoms_of(data).isnan().tolist() == [True] + 4 * [False]
    emission = beside_atoms(standardized, atoms_of(data), data)
    assert emission.inner.own_features(5) == [1, 2, 3, 4]
