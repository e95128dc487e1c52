"""Random pairs: none twice, drawn uniformly, balanced where that is asked for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pyro_crowdclust.simulation import simulate_pairs, two_coin_rates

from .unequal_crowds import pairs_crowd, unequal_labels, within_binomial


def test_no_worker_answers_a_pair_twice():
    frame = pairs_crowd()
    assert not frame.duplicated(["left", "right", "worker"]).any()
    assert (frame.groupby("worker").size() == 1000).all()


@pytest.mark.parametrize("balanced", [False, True])
def test_pairs_can_be_exhausted(balanced):
    # Of the 15 pairs 6 are of one class, so that 6 and 6 is the most that balances.
    labels = list("ababab")
    size = 12 if balanced else 15
    frame = simulate_pairs(labels, [1.0], [1.0], pairs_per_worker=size, balanced=balanced, seed=0)
    assert len(frame.drop_duplicates()) == size
    assert frame["label"].sum() == 6
    for _, left, right, label in frame[["left", "right", "label"]].itertuples(name=None):
        assert label == (labels[left] == labels[right])


def test_pairs_are_drawn_uniformly():
    frame = simulate_pairs(list("aabbb"), [0.5] * 2000, [0.5] * 2000, pairs_per_worker=2, seed=0)
    counts = frame.groupby(["left", "right"]).size()
    assert len(counts) == 10
    assert stats.chisquare(counts).pvalue > 1e-6


@pytest.mark.long
@pytest.mark.parametrize(("same", "num_pairs"), [(True, 4), (False, 6)])
def test_balanced_pairs_are_drawn_uniformly_within_each_kind(same, num_pairs):
    labels = np.array(list("babab"))
    frame = simulate_pairs(
        labels, [0.5] * 2000, [0.5] * 2000, pairs_per_worker=2, balanced=True, seed=0
    )
    kind = labels[frame["left"]] == labels[frame["right"]]
    counts = frame[kind == same].groupby(["left", "right"]).size()
    assert len(counts) == num_pairs
    assert counts.sum() == 2000
    assert stats.chisquare(counts).pvalue > 1e-6


def test_balanced_pairs_balance_the_truth_of_every_worker():
    rates = two_coin_rates(pairs_crowd(balanced=True), unequal_labels())
    assert (rates["same_pairs"] == 500).all()
    assert (rates["different_pairs"] == 500).all()


def test_balanced_answers_balance_in_expectation_where_the_rates_are_equal():
    rates = [0.95, 0.9, 0.85, 0.8, 0.75]
    frame = simulate_pairs(
        unequal_labels(200), rates, rates, pairs_per_worker=2000, balanced=True, seed=1
    )
    assert within_binomial(frame["label"].mean(), 0.5, len(frame))
    plain = simulate_pairs(unequal_labels(200), rates, rates, pairs_per_worker=2000, seed=1)
    assert not within_binomial(plain["label"].mean(), 0.5, len(plain))


def test_pairs_of_many_items_need_no_table_of_pairs():
    labels = np.arange(60_000) % 10
    frame = simulate_pairs(labels, [1.0], [1.0], pairs_per_worker=500, balanced=True, seed=0)
    same = labels[frame["left"]] == labels[frame["right"]]
    np.testing.assert_array_equal(frame["label"], same)
    assert frame["right"].max() > 50_000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pairs_per_worker": 0}, "pairs_per_worker is 0, but must be at least 1"),
        ({"pairs_per_worker": 1.5}, "pairs_per_worker is 1.5, but must be a whole number"),
        ({"pairs_per_worker": 4006}, "4006 distinct pairs, but the items have only 4005"),
        ({"pairs_per_worker": 5, "balanced": True}, "pairs_per_worker must be even"),
        ({"pairs_per_worker": 4000, "balanced": True}, "2000 same-class pairs"),
        ({"items": [0, 1, 1]}, "items names a position more than once"),
        ({"items": [0, 90]}, "items must lie in 0 to 89, but row 1 holds 90"),
        ({"items": [-1, 0]}, "row 0 holds -1"),
        ({"items": []}, "items is empty"),
        ({"items": np.ones(90, dtype=bool)}, "np.flatnonzero turns a mask into positions"),
    ],
)
def test_bad_pairs_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        pairs_crowd(**changes)
