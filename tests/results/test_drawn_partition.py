"""What a user reads from draws of a partition, against cases that can be seen at a glance."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust.partitions import AskedPairs, Memberships, share_together
from pyro_crowdclust.results.drawn_partition import DrawnPartition

from ..partitions.partitions import DRAWS


def test_drawn_partition_tells_the_same_by_all_its_verbs():
    drawn = DrawnPartition(DRAWS)
    table = drawn.probabilities()
    np.testing.assert_allclose(table.sum(1), 1)
    np.testing.assert_allclose(table[np.arange(6), drawn.labels.numpy()], drawn.own_shares)
    np.testing.assert_allclose(drawn.probabilities(np.array([5, 0])), table[[5, 0]])
    clusters = drawn.clusters()
    np.testing.assert_allclose(clusters["expected_items"], table.sum(0))
    assert clusters["assigned_items"].tolist() == [3, 2, 1]
    same = drawn.same(np.array([0, 3, 5, 5]), np.array([1, 5, 0, 5]))
    np.testing.assert_allclose(same, [0.9, 0.3, 0.1, 1.0])
    np.testing.assert_allclose(share_together(DRAWS, torch.tensor([3]), torch.tensor([5])), 0.3)


def test_items_that_no_chain_of_random_pairs_connects_are_as_likely_the_same_as_others():
    """Chains connect 0 to 2, and 3 to 5; of their pairs 0, 2 and 3, 5 were not asked about."""
    pairs = AskedPairs.of(torch.tensor([[0, 1], [1, 2], [3, 4], [4, 5]]), num_items=7)
    draws = torch.cat([DRAWS, torch.full((4, 1), 9)], 1)
    same = DrawnPartition(draws, pairs).same(np.array([0, 0, 3, 6]), np.array([2, 3, 5, 1]))
    # Items 0 and 2 are together in all of four draws, 3 and 5 in one.
    strangers = (1 + 1 / 4 + 0.1) / 3
    np.testing.assert_allclose(same, [0.9, strangers, 0.3, strangers])


def test_expected_items_add_up_where_some_are_seldom_in_any_cluster():
    drawn = DrawnPartition(
        torch.tensor([[3, 2, 0, 3, 3, 2], [0, 0, 2, 3, 1, 2], [2, 0, 2, 1, 2, 2]])
    )
    found = Memberships.of(drawn.draws, drawn.labels)
    somewhere = np.bincount(found.item, found.share, minlength=6)
    np.testing.assert_allclose(somewhere, [2 / 3, 0, 1 / 3, 1, 1, 1 / 3])
    expected = drawn.clusters()["expected_items"]
    np.testing.assert_allclose(expected, drawn.probabilities().sum(0))
    assert expected.sum() == pytest.approx(6)


def test_a_table_that_is_too_large_is_refused_and_its_rows_are_not():
    drawn = DrawnPartition(torch.arange(20_000).repeat(2, 1))
    with pytest.raises(ValueError, match="20000 items and 20000 clusters is too large"):
        drawn.probabilities()
    assert drawn.probabilities(np.array([7])).shape == (1, 20_000)
    assert (drawn.own_shares == 1).all()
