"""Pages of items, answered pair by pair or sorted into groups."""

from __future__ import annotations

import numpy as np
import pytest

from pyro_crowdclust.simulation import (
    simulate_pages,
    simulate_partitions,
    simulate_placements,
    two_coin_rates,
)

from .unequal_crowds import pages_crowd, partitions_crowd, unequal_labels, within_binomial


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


def test_partitions_need_two_classes():
    with pytest.raises(ValueError, match="all asked items are of one class"):
        simulate_partitions([0, 0, 1], [0.1], pages_per_worker=1, page_size=2, items=[0, 1], seed=0)


def test_no_page_need_be_sorted_as_it_should():
    """1 - 0.9 - 0.1 is a rounding error below zero."""
    frame = simulate_placements(
        [0, 1] * 6, [0.9], pages_per_worker=9, page_size=4, lumped=0.9, careless=0.1, seed=0
    )
    assert set(frame["state"]) <= {"lumped", "careless"}
