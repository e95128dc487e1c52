"""Sweeps of several chains at once, of which what is said may be of any kind: here of pairs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust.partitions import AskedPairs, FewClusters, PitmanYor, places_of, sweep_at_once

from .partitions import CHAIN, COMPLETE, PARTS, WEIGHTS, complete_pairs, shares_of_partitions


class SaidOfPairs:
    """Sums over the pairs of an item and the items of a cluster."""

    def __init__(self, pairs: AskedPairs, weights: torch.Tensor) -> None:
        self.first, self.others, pair = (each.numpy() for each in pairs.edges)
        self.said = np.ascontiguousarray(weights.numpy()[:, pair].T)

    def begin(self, z: np.ndarray, size: int) -> None:
        self.z = z

    def take(self, item: int, size: int) -> np.ndarray:
        edges = slice(self.first[item], self.first[item + 1])
        return np.bincount(self.z[self.others[edges]].ravel(), self.said[edges].ravel(), size)

    def put(self, item: int) -> None:
        pass


def swept(labels: torch.Tensor, pairs: AskedPairs, weights: torch.Tensor, prior) -> torch.Tensor:
    return sweep_at_once(places_of(labels, pairs), pairs, SaidOfPairs(pairs, weights), prior)


@pytest.mark.parametrize("prior", [PitmanYor(0.2, 1.5), FewClusters(0.7)])
@pytest.mark.parametrize("pairs", [COMPLETE, CHAIN, PARTS])
def test_draws_of_every_chain_have_the_exact_probabilities(prior, pairs):
    """Two kinds of chains, of which one hears half of what the answers say."""
    torch.manual_seed(0)
    weights = torch.tensor([[1.0], [0.5]], dtype=torch.float64) * WEIGHTS[: pairs.num_pairs]
    found, exact = shares_of_partitions(swept, prior, pairs, weights)
    np.testing.assert_allclose(found, exact, atol=0.03)


def test_there_is_a_place_for_every_cluster():
    """From one cluster to nine, and back."""
    pairs, labels = complete_pairs(9), torch.zeros(4, 9, dtype=torch.int64)
    apart = torch.full((4, pairs.num_pairs), -50.0, dtype=torch.float64)
    labels = swept(labels, pairs, apart, FewClusters())
    assert [sorted(one) for one in labels.tolist()] == [list(range(9))] * 4
    labels = swept(labels, pairs, -apart, FewClusters())
    assert (labels < 4).all()


def test_items_that_no_chain_of_pairs_connects_stay_apart():
    torch.manual_seed(0)
    pairs = AskedPairs.of(torch.tensor([[0, 1], [1, 2], [3, 4]]), num_items=7)
    weights, labels = torch.full((5, 3), 3.0).double(), torch.zeros(5, 7, dtype=torch.int64)
    met = torch.zeros(3, dtype=torch.bool)
    for _ in range(20):
        labels = swept(labels, pairs, weights, FewClusters())
        met |= pairs.together(labels).any(0)
        for one in labels.tolist():
            assert set(one) == set(range(max(one) + 1))
            assert not set(one[:3]) & set(one[3:])
            assert one.count(one[5]) == one.count(one[6]) == 1
    assert met.all()
