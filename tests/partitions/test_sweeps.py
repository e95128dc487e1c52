"""Gibbs sweeps against the exact posterior of all partitions of a few items."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust.partitions import AskedPairs, ManySmall, PitmanYor, sweep

from .partitions import complete_pairs, every_partition
from .test_priors import field_score


@pytest.mark.parametrize("prior", [PitmanYor(0.2, 1.5), ManySmall(-0.5, -1.0)])
def test_draws_have_the_exact_probabilities(prior):
    generator = torch.Generator().manual_seed(0)
    pairs = complete_pairs(4)
    weights = torch.tensor([1.5, -1.0, 0.3, 0.8, -0.4, 0.0], dtype=torch.float64)
    score = (
        prior.log_prob
        if isinstance(prior, PitmanYor)
        else (lambda labels, pairs: field_score(prior, labels, pairs))
    )
    known = {}
    for labels in every_partition(4):
        together = pairs.together(labels)
        log_joint = score(labels, pairs) + weights[together].sum()
        known[tuple(together.tolist())] = float(log_joint)
    exact = np.exp(np.array([*known.values()]))
    exact /= exact.sum()
    labels, counts = torch.arange(4), dict.fromkeys(known, 0)
    sweeps = 2500
    for _ in range(sweeps):
        labels, _ = sweep(labels, pairs, weights, prior, generator)
        counts[tuple(pairs.together(labels).tolist())] += 1
    found = np.array([*counts.values()]) / sweeps
    assert np.abs(found - exact).max() < 0.03
    assert exact.max() < 0.5  # else there would be little to find out


def test_items_join_nobody_they_were_not_compared_with():
    pairs = AskedPairs.of(torch.tensor([[0, 1], [2, 3]]), num_items=6)
    weights = torch.full((2,), 3.0, dtype=torch.float64)
    generator, labels = torch.Generator().manual_seed(0), torch.arange(6)
    for _ in range(20):
        labels, choices = sweep(labels, pairs, weights, PitmanYor(), generator)
        assert len({int(labels[0]), int(labels[2]), int(labels[4]), int(labels[5])}) == 4
        assert len(choices.sizes) == len(choices.chosen) == 4


def test_costs_do_not_grow_with_the_number_of_clusters():
    """Choices are offered by the graph: with pairs only, one each, whatever the number of items."""
    items = torch.arange(20_000).reshape(-1, 2)
    pairs = AskedPairs.of(items, num_items=20_000)
    weights = torch.zeros(len(items), dtype=torch.float64)
    labels, choices = sweep(torch.arange(20_000), pairs, weights, ManySmall())
    assert max(map(len, choices.sizes)) == 1
    assert len(labels.unique()) < 20_000
