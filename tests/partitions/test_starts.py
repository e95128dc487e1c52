"""The spectral start, on answers that leave no doubt."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.partitions import AskedPairs, spectral_partitions


@pytest.mark.parametrize("num_clusters", [2, 3, 6])
def test_finds_clusters_and_their_number(num_clusters):
    generator = torch.Generator().manual_seed(num_clusters)
    truth = torch.arange(120) % num_clusters
    items = torch.randint(120, (4000, 2), generator=generator)
    pairs = AskedPairs.of(items[items[:, 0] != items[:, 1]], 120)
    same = pairs.together(truth)
    shares = torch.where(same, 0.7, 0.1).double()
    found = spectral_partitions(shares, pairs, generator)[0]
    assert clustering_accuracy(truth.numpy(), found.numpy()) > 0.97
    assert int(found.max()) + 1 == num_clusters


def test_numbers_are_those_of_the_largest_gaps_and_the_small_ones():
    """By all eigenvalues of the dense matrix, of items of which more or less is known."""
    generator = torch.Generator().manual_seed(5)
    truth = torch.arange(60) % 7
    items = (60 * torch.rand(500, 2, generator=generator, dtype=torch.float32) ** 1.5).long()
    pairs = AskedPairs.of(items[items[:, 0] != items[:, 1]], 60)
    noise = torch.rand(pairs.num_pairs, generator=generator, dtype=torch.float64)
    shares = 0.3 * noise + 0.7 * pairs.together(truth)
    affinity = np.zeros((60, 60))
    affinity[pairs.left, pairs.right] = affinity[pairs.right, pairs.left] = shares
    degrees = affinity.sum(1) + 0.1 * affinity.sum(1).mean()
    values = np.linalg.eigvalsh(affinity / np.sqrt(np.outer(degrees, degrees)))[::-1][:21]
    gaps = values[1:-1] - values[2:]
    numbers = dict.fromkeys([*(2 + np.argsort(-gaps)[:3]).tolist(), *range(2, 7)])
    found = spectral_partitions(shares, pairs, generator)
    assert [*numbers] == [3, 6, 20, 2, 4, 5]
    assert [len(labels.unique()) for labels in found] == [*numbers]


def test_what_no_pairs_connect_is_apart():
    items = torch.cat([torch.combinations(torch.arange(5)) + 5 * part for part in range(40)])
    pairs = AskedPairs.of(items, 200)
    shares = torch.ones(pairs.num_pairs, dtype=torch.float64)
    for labels in spectral_partitions(shares, pairs, torch.Generator().manual_seed(0)):
        assert len(labels[::5].unique()) == 40


def test_two_items_are_one_cluster_to_start_with():
    pairs = AskedPairs.of(torch.tensor([[0, 1]]), 2)
    (found,) = spectral_partitions(torch.ones(1).double(), pairs, torch.Generator().manual_seed(0))
    assert found.tolist() == [0, 0]


@pytest.mark.parametrize("num_same", [0, 30])
def test_few_pairs_that_are_the_same_or_none(num_same):
    """Most eigenvalues are equal then; what is apart stays so."""
    for seed in range(10):
        generator = torch.Generator().manual_seed(seed)
        items = torch.randint(50, (150, 2), generator=generator)
        pairs = AskedPairs.of(items[items[:, 0] != items[:, 1]], 69)  # nobody asked about the last
        shares = torch.zeros(pairs.num_pairs, dtype=torch.float64)
        shares[:num_same] = 1.0
        for labels in spectral_partitions(shares, pairs, generator):
            assert 2 <= len(labels.unique()) <= 69
