"""Counts are tried as counts and as numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import choice_for, cluster
from pyro_crowdclust.interface.candidates.counts import (
    counts_as_numbers,
    has_counts,
    look_normal,
)

RNG = np.random.default_rng(0)
KIND = RNG.integers(0, 4, 300)
COUNTS = RNG.poisson(RNG.gamma(1.5, 2.0, (4, 10))[KIND])
# How much there is of an item has nothing to do with its kind, and all counts go up and down by it.
VARYING = RNG.poisson(RNG.gamma(1.5, 5.0, (4, 10))[KIND] * RNG.gamma(3.0, 1 / 3, (300, 1)))


def frame(rows):
    return pd.DataFrame(rows).add_prefix("visits ")


def of_counts(table):
    return CrowdData(table, kinds=dict.fromkeys(table.columns, "count"))


def test_counts_are_numbers_of_their_own_kind():
    data = CrowdData(frame(COUNTS).assign(hair=np.array(["red", "fair", "dark"])[KIND % 3]))
    assert has_counts(data)
    numbers = counts_as_numbers(data)
    assert numbers.columns.kinds == ("real",) * 10 + ("category",)
    assert data.columns.kinds[0] == "count"
    assert not has_counts(numbers)
    assert counts_as_numbers(numbers) is numbers
    plain = CrowdData(COUNTS.astype(float))
    assert not has_counts(plain)
    assert counts_as_numbers(plain) is plain


def test_counts_with_gaps_look_like_those_without():
    for rows, is_normal in (
        (RNG.poisson(0.3, (200, 4)), False),
        (RNG.integers(0, 17, (200, 4)), True),
    ):
        gaps = frame(rows).mask(RNG.random(rows.shape) < 0.2)
        for table in (frame(rows), gaps):
            assert look_normal(of_counts(table)) == is_normal


def test_few_counts_are_tried_both_ways():
    forms = choice_for(CrowdData(frame(COUNTS))).forms
    names = [f"{form.kind} on {form.features}" for form in forms]
    assert names[0] == "independent columns on columns"
    assert "full Gaussians on powers, counts as numbers" in names
    assert len(names) == 9


@pytest.mark.parametrize(
    ("rows", "ends"),
    [
        (RNG.poisson(0.3, (200, 60)), "columns"),
        (RNG.integers(0, 17, (200, 60)), "directions, counts as numbers"),
    ],
    ids=["words", "intensities"],
)
def test_many_counts_are_what_suits_them(rows, ends):
    data = of_counts(frame(rows))
    names = [form.features for form in choice_for(data).forms]
    assert names
    assert all(("directions" in name) == ("directions" in ends) for name in names)
    assert all(name.endswith("counts as numbers") == ("numbers" in ends) for name in names)


@pytest.mark.long
@pytest.mark.parametrize(
    ("rows", "as_numbers"), [(COUNTS, False), (VARYING, True)], ids=["counts", "varying"]
)
def test_the_elbo_decides_what_counts_are(rows, as_numbers):
    """Densities of numbers spread over a step of 1 and masses of counts can be compared."""
    result = cluster(frame(rows), progress=False)
    chosen = result.chosen.table.query("chosen")["features"].item()
    assert chosen.endswith("counts as numbers") == as_numbers
    assert adjusted_rand_score(KIND, result.assignments) > 0.8
    assert result.components.columns.tolist() == frame(rows).columns.tolist()
    assert "count" in result.data.columns.kinds
    gap = frame(rows)[:3].astype(float)
    gap.iloc[0, 0] = np.nan
    assert len(result.predict(gap)) == 3
