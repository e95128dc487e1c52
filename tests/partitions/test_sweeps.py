"""Gibbs sweeps against the exact posterior of all partitions of a few items."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust.partitions import AskedPairs, Choices, FewClusters, ManySmall, PitmanYor, sweep

from .partitions import complete_pairs, every_partition
from .test_priors import field_score

COMPLETE = complete_pairs(4)
CHAIN = AskedPairs.of(torch.tensor([[0, 1], [1, 2], [2, 3]]), num_items=4)


@pytest.mark.parametrize(
    ("prior", "pairs"),
    [
        (PitmanYor(0.2, 1.5), COMPLETE),
        (PitmanYor(0.2, 1.5), CHAIN),
        (FewClusters(0.7), COMPLETE),
        (FewClusters(0.7), CHAIN),
        (ManySmall(-0.5, -1.0), COMPLETE),
        (ManySmall(-0.5, None), COMPLETE),
    ],
)
def test_draws_have_the_exact_probabilities(prior, pairs):
    if isinstance(prior, ManySmall):
        prior.learn(torch.tensor([0, 0, 1, 1]), CHAIN, Choices())
    generator = torch.Generator().manual_seed(1)
    weights = torch.tensor([1.5, -1.0, 0.3, 0.8, -0.4, 0.0], dtype=torch.float64)[: pairs.num_pairs]
    score = (
        (lambda labels, pairs: field_score(prior, labels, pairs))
        if isinstance(prior, ManySmall)
        else prior.log_prob
    )
    known = {}
    for labels in every_partition(4):
        log_joint = score(labels, pairs) + weights[pairs.together(labels)].sum()
        known[tuple(COMPLETE.together(labels).tolist())] = float(log_joint)
    exact = np.exp(np.array([*known.values()]))
    exact /= exact.sum()
    labels, counts = torch.arange(4), dict.fromkeys(known, 0)
    sweeps = 2500
    for _ in range(sweeps):
        labels, _ = sweep(labels, pairs, weights, prior, generator)
        counts[tuple(COMPLETE.together(labels).tolist())] += 1
    found = np.array([*counts.values()]) / sweeps
    assert np.abs(found - exact).max() < 0.03
    assert exact.max() < 0.75  # else there would be little to find out


@pytest.mark.parametrize("prior", [PitmanYor(), FewClusters(), ManySmall(2.0, 1.0)])
def test_items_that_no_chain_of_pairs_connects_stay_apart(prior):
    pairs = AskedPairs.of(torch.tensor([[0, 1], [1, 2], [3, 4]]), num_items=7)
    weights = torch.full((3,), 3.0, dtype=torch.float64)
    generator, labels = torch.Generator().manual_seed(0), torch.zeros(7, dtype=torch.int64)
    for _ in range(20):
        labels, choices = sweep(labels, pairs, weights, prior, generator)
        assert not set(labels[:3].tolist()) & set(labels[3:].tolist())
        assert (labels == labels[5]).sum() == (labels == labels[6]).sum() == 1
        assert len(choices.sizes) == len(choices.chosen) == 5


def test_many_small_clusters_are_not_joined_by_items_they_were_not_compared_with():
    weights = torch.tensor([3.0, -20.0, 3.0], dtype=torch.float64)
    for prior, expected in ((ManySmall(2.0, 1.0), False), (PitmanYor(), True)):
        generator, labels, met = torch.Generator().manual_seed(0), torch.arange(4), False
        for _ in range(20):
            labels, _ = sweep(labels, CHAIN, weights, prior, generator)
            met = met or bool(labels[0] == labels[3])
        assert met == expected


def test_costs_do_not_grow_with_the_number_of_clusters():
    """Choices are offered by the graph: with pairs only, one each, whatever the number of items."""
    items = torch.arange(20_000).reshape(-1, 2)
    pairs = AskedPairs.of(items, num_items=20_000)
    weights = torch.zeros(len(items), dtype=torch.float64)
    labels, choices = sweep(torch.arange(20_000), pairs, weights, ManySmall())
    assert max(map(len, choices.sizes)) == 1
    assert len(labels.unique()) < 20_000
