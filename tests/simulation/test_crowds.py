"""Crowds that answer as they were told to."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pyro_crowdclust.simulation import (
    simulate_pages,
    simulate_pairs,
    simulate_partitions,
    two_coin_rates,
)

SENSITIVITY = [0.95, 0.6, 0.3]
SPECIFICITY = [0.9, 0.75, 0.99]


def unequal_labels(num_items=90):
    """Three classes of unequal size in no order, named by strings."""
    sizes = [num_items // 2, num_items // 3, num_items - num_items // 2 - num_items // 3]
    return np.random.default_rng(11).permutation(np.repeat(["ant", "bee", "cow"], sizes))


def pairs_crowd(seed=0, **changes):
    arguments = {"pairs_per_worker": 1000, **changes}
    return simulate_pairs(unequal_labels(), SENSITIVITY, SPECIFICITY, seed=seed, **arguments)


def pages_crowd(seed=0, **changes):
    arguments = {"pages_per_worker": 8, "page_size": 12, **changes}
    return simulate_pages(unequal_labels(), SENSITIVITY, SPECIFICITY, seed=seed, **arguments)


def partitions_crowd(seed=0, **changes):
    arguments = {"pages_per_worker": 8, "page_size": 12, **changes}
    return simulate_partitions(unequal_labels(), [0.0, 0.2, 0.6], seed=seed, **arguments)


CROWDS = [pairs_crowd, pages_crowd, partitions_crowd]


def within_binomial(rate, probability, count):
    """Whether a rate over `count` answers is no outlier, at a level of one in a million."""
    low, high = stats.binom.interval(1 - 1e-6, count, probability)
    return low <= round(rate * count) <= high


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


@pytest.mark.parametrize("crowd", CROWDS)
def test_items_restricts_who_is_asked_about(crowd):
    asked = np.random.default_rng(1).choice(90, 40, replace=False)
    size = {"pairs_per_worker": 300} if crowd is pairs_crowd else {}
    frame = crowd(items=asked, **size)
    assert set(frame["left"]) | set(frame["right"]) == set(asked)


@pytest.mark.parametrize("crowd", [pairs_crowd, pages_crowd])
def test_rates_are_those_requested_by_their_true_labels(crowd):
    asked = np.random.default_rng(1).choice(90, 60, replace=False)
    rates = two_coin_rates(crowd(items=asked, seed=3), unequal_labels())
    for worker, row in rates.iterrows():
        assert row["same_pairs"] > 50
        assert within_binomial(row["sensitivity"], SENSITIVITY[worker], row["same_pairs"])
        assert within_binomial(row["specificity"], SPECIFICITY[worker], row["different_pairs"])


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


@pytest.mark.parametrize("crowd", [pages_crowd, partitions_crowd])
def test_pages_are_complete_and_of_one_worker(crowd):
    frame = crowd()
    assert sorted(frame["page"].unique()) == list(range(24))
    for _, page in frame.groupby("page"):
        members = np.unique(page[["left", "right"]])
        assert len(members) == 12
        assert len(page.drop_duplicates(["left", "right"])) == len(page) == 66
        assert page["worker"].nunique() == 1
    assert frame.groupby("page")["worker"].first().tolist() == [0] * 8 + [1] * 8 + [2] * 8


def test_pages_hold_36_items_by_default():
    frame = simulate_pages(unequal_labels(), [0.9], [0.9], pages_per_worker=1, seed=0)
    assert len(frame) == 630
    frame = simulate_partitions(unequal_labels(), [0.1], pages_per_worker=1, seed=0)
    assert len(frame) == 630


def intransitive_triples(frame):
    """Number of (i, j, k) on one page with i ~ j and j ~ k but not i ~ k."""
    count = 0
    for _, page in frame.groupby("page"):
        members, ends = np.unique(page[["left", "right"]], return_inverse=True)
        left, right = ends.reshape(-1, 2).T
        same = np.eye(len(members), dtype=np.int64)
        same[left, right] = same[right, left] = page["label"]
        count += int(((same @ same > 0) & (same == 0)).sum())
    return count


def test_partition_answers_are_transitive_and_page_answers_are_not():
    assert intransitive_triples(partitions_crowd()) == 0
    assert intransitive_triples(pages_crowd()) > 0


def test_partitions_without_errors_are_the_truth():
    labels = unequal_labels()
    frame = partitions_crowd()
    frame = frame[frame["worker"] == 0]
    same = labels[frame["left"]] == labels[frame["right"]]
    np.testing.assert_array_equal(frame["label"], same)


@pytest.mark.parametrize("num_classes", [2, 3, 5])
@pytest.mark.parametrize("error_rate", [0.1, 0.5, 1.0])
def test_partition_rates_are_the_documented_ones(num_classes, error_rate):
    # Pages of two items: their answers are independent, so binomial bounds apply.
    labels = np.arange(300) % num_classes
    frame = simulate_partitions(
        labels, [error_rate], pages_per_worker=3000, page_size=2, seed=num_classes
    )
    rates = two_coin_rates(frame, labels).loc[0]
    e, others = error_rate, num_classes - 1
    sensitivity = (1 - e) ** 2 + e**2 / others
    specificity = 1 - 2 * e * (1 - e) / others - e**2 * (others - 1) / others**2
    assert within_binomial(rates["sensitivity"], sensitivity, rates["same_pairs"])
    assert within_binomial(rates["specificity"], specificity, rates["different_pairs"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pairs_per_worker": 0}, "pairs_per_worker must be an integer of at least 1"),
        ({"pairs_per_worker": 1.5}, "pairs_per_worker must be an integer"),
        ({"pairs_per_worker": 4006}, "4006 distinct pairs, but the items make only 4005"),
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


@pytest.mark.parametrize("crowd", [pages_crowd, partitions_crowd])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pages_per_worker": 0}, "pages_per_worker must be an integer of at least 1"),
        ({"page_size": 1}, "page_size must be an integer of at least 2"),
        ({"page_size": 91}, "a page of 91 distinct items cannot be filled from 90"),
    ],
)
def test_bad_pages_are_refused(crowd, changes, message):
    with pytest.raises(ValueError, match=message):
        crowd(**changes)


@pytest.mark.parametrize(
    ("sensitivity", "specificity", "message"),
    [
        ([0.9, 1.1], [0.9, 0.9], r"sensitivity must lie in \[0, 1\], but that of worker 1 is 1.1"),
        ([0.9], [float("nan")], "specificity must lie in"),
        ([0.9, 0.9], [0.9], "sensitivity has 2 and specificity has 1"),
        (0.9, 0.9, "one probability per worker"),
        ([], [], "one probability per worker"),
    ],
)
def test_bad_rates_are_refused(sensitivity, specificity, message):
    with pytest.raises(ValueError, match=message):
        simulate_pairs([0, 1], sensitivity, specificity, pairs_per_worker=1, seed=0)


def test_partitions_need_two_classes():
    with pytest.raises(ValueError, match="all asked items are of one class"):
        simulate_partitions([0, 0, 1], [0.1], pages_per_worker=1, page_size=2, items=[0, 1], seed=0)
