"""Crowds that answer as they were told to, in frames of one form."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust.simulation import two_coin_rates

from .unequal_crowds import (
    CROWDS,
    SENSITIVITY,
    SPECIFICITY,
    pages_crowd,
    pairs_crowd,
    unequal_labels,
    within_binomial,
)


@pytest.mark.parametrize("crowd", CROWDS)
def test_frames_hold_ordered_pairs_of_distinct_items(crowd):
    frame = crowd()
    assert (frame["left"] < frame["right"]).all()
    assert frame["left"].min() >= 0
    assert frame["right"].max() < 90
    assert sorted(frame["worker"].unique()) == [0, 1, 2]
    assert set(frame["label"].unique()) == {0, 1}
    assert (frame.dtypes == np.int64).all()
    assert list(frame.index) == list(range(len(frame)))


@pytest.mark.parametrize("crowd", CROWDS)
def test_the_seed_decides_the_answers(crowd):
    pd.testing.assert_frame_equal(crowd(seed=5), crowd(seed=5))
    assert not crowd(seed=5).equals(crowd(seed=6))


@pytest.mark.parametrize("crowd", [pairs_crowd, pages_crowd])
def test_rates_are_those_requested_by_their_true_labels(crowd):
    asked = np.random.default_rng(1).choice(90, 60, replace=False)
    rates = two_coin_rates(crowd(items=asked, seed=3), unequal_labels())
    for worker, row in rates.iterrows():
        assert row["same_pairs"] > 50
        assert within_binomial(row["sensitivity"], SENSITIVITY[worker], row["same_pairs"])
        assert within_binomial(row["specificity"], SPECIFICITY[worker], row["different_pairs"])
