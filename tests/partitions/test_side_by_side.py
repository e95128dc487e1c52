"""Sweeps of several chains at once: against the exact posterior, and against one at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust.partitions import (
    AskedPairs,
    FewClusters,
    ManySmall,
    PitmanYor,
    side_by_side,
    sweep_chains,
)

from .partitions import complete_pairs, every_partition

COMPLETE = complete_pairs(4)
CHAIN = AskedPairs.of(torch.tensor([[0, 1], [1, 2], [2, 3]]), num_items=4)
PARTS = AskedPairs.of(torch.tensor([[0, 2], [1, 3]]), num_items=4)
WEIGHTS = torch.tensor([1.5, -1.0, 0.3, 0.8, -0.4, 0.0], dtype=torch.float64)


def connects_parts(labels: torch.Tensor, pairs: AskedPairs) -> bool:
    """Whether items are one cluster to which no chain of pairs leads."""
    return len(pairs.split(labels).unique()) > len(labels.unique())


@pytest.mark.parametrize("prior", [PitmanYor(0.2, 1.5), FewClusters(0.7)])
@pytest.mark.parametrize("pairs", [COMPLETE, CHAIN, PARTS])
def test_draws_of_every_chain_have_the_exact_probabilities(prior, pairs):
    """Two kinds of chains, of which one hears half of what the answers say."""
    torch.manual_seed(0)
    powers = torch.tensor([1.0, 0.5], dtype=torch.float64)
    weights = powers.unsqueeze(1) * WEIGHTS[: pairs.num_pairs]
    every = [labels for labels in every_partition(4) if not connects_parts(labels, pairs)]
    exact = torch.tensor([float(prior.log_prob(labels, pairs)) for labels in every])
    together = torch.stack([pairs.together(labels) for labels in every]).double()
    exact = (exact + weights @ together.mT).softmax(1)
    place = {tuple(labels.tolist()): number for number, labels in enumerate(every)}
    labels, counts = torch.zeros(120, 4, dtype=torch.int64), np.zeros(exact.shape)
    for turn in range(60):
        labels, _ = sweep_chains(labels, pairs, weights.repeat(60, 1), prior)
        for chain, one in enumerate(labels.tolist() if turn >= 10 else []):
            counts[chain % 2, place[tuple(map(list(dict.fromkeys(one)).index, one))]] += 1
    np.testing.assert_allclose(counts / counts.sum(1, keepdims=True), exact, atol=0.03)


def test_there_is_a_place_for_every_cluster():
    """From one cluster to nine, and back."""
    pairs, labels = complete_pairs(9), torch.zeros(4, 9, dtype=torch.int64)
    apart = torch.full((4, pairs.num_pairs), -50.0, dtype=torch.float64)
    labels, _ = sweep_chains(labels, pairs, apart, FewClusters())
    assert [sorted(one) for one in labels.tolist()] == [list(range(9))] * 4
    labels, _ = sweep_chains(labels, pairs, -apart, FewClusters())
    assert (labels < 4).all()


def test_items_that_no_chain_of_pairs_connects_stay_apart():
    torch.manual_seed(0)
    pairs = AskedPairs.of(torch.tensor([[0, 1], [1, 2], [3, 4]]), num_items=7)
    weights, labels = torch.full((5, 3), 3.0).double(), torch.zeros(5, 7, dtype=torch.int64)
    met = torch.zeros(3, dtype=torch.bool)
    for _ in range(20):
        labels, _ = sweep_chains(labels, pairs, weights, FewClusters())
        met |= pairs.together(labels).any(0)
        for one in labels.tolist():
            assert set(one) == set(range(max(one) + 1))
            assert not set(one[:3]) & set(one[3:])
            assert one.count(one[5]) == one.count(one[6]) == 1
    assert met.all()


@pytest.mark.parametrize(
    ("prior", "bound"),
    [(FewClusters(), "_PLACES"), (FewClusters(), "_OF_PARTS"), (ManySmall(), "")],
)
def test_chains_of_many_clusters_are_swept_one_by_one(prior, bound, monkeypatch):
    seen = []

    def sweep(labels, pairs, weights, prior):
        seen.append(weights)
        return labels + len(seen), len(seen)

    monkeypatch.setattr(side_by_side, "sweep", sweep)
    if bound:
        monkeypatch.setattr(side_by_side, bound, 11)
    weights = torch.rand(3, 6, dtype=torch.float64)
    labels, choices = sweep_chains(torch.zeros(3, 4).long(), COMPLETE, weights, prior)
    assert torch.equal(torch.stack(seen), weights)
    assert labels.tolist() == [[1] * 4, [2] * 4, [3] * 4]
    assert choices == 3
