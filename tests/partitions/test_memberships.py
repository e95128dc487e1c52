"""What is read from draws, against cases that can be seen at a glance."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust.partitions import Memberships, consensus, share_together
from pyro_crowdclust.results.drawn_partition import DrawnPartition

# Items 0 to 2 are one cluster, 3 and 4 another; 5 is with these in one draw of four, else alone.
DRAWS = torch.tensor(
    [[0, 0, 0, 1, 1, 2], [3, 3, 3, 0, 0, 0], [1, 1, 1, 2, 2, 0], [5, 5, 5, 1, 1, 0]]
)


def test_names_of_clusters_in_a_draw_mean_nothing():
    generator = torch.Generator().manual_seed(0)
    shuffled = torch.stack([torch.randperm(6, generator=generator)[draw] for draw in DRAWS])
    assert torch.equal(consensus(shuffled), consensus(DRAWS))


def test_shares_of_memberships():
    found = Memberships.of(DRAWS, consensus(DRAWS))
    assert consensus(DRAWS).tolist() == [0, 0, 0, 1, 1, 2]
    places = zip(found.item.tolist(), found.cluster.tolist(), strict=True)
    entries = dict(zip(places, found.share.tolist(), strict=True))
    assert entries[5, 2] == 0.75
    assert entries[5, 1] == 0.25
    assert entries[0, 0] == entries[3, 1] == 1
    np.testing.assert_allclose(found.alone, 0, atol=1e-15)


def test_an_item_that_is_rarely_with_its_cluster_is_alone():
    draws = torch.tensor([[0, 0, 1], [0, 1, 2], [0, 1, 2], [0, 0, 1]])
    assert consensus(draws[[1, 2, 3, 1, 0]]).tolist() == [0, 1, 2]
    assert consensus(draws[[0, 3, 0, 1, 0]]).tolist() == [0, 0, 1]


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


def test_clusters_are_numbered_from_the_largest():
    draws = torch.tensor([[0, 1, 1, 1, 2, 2]]).repeat(3, 1)
    assert consensus(draws).tolist() == [2, 0, 0, 0, 1, 1]
