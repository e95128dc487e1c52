"""The spectral start, on answers that leave no doubt."""

from __future__ import annotations

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
