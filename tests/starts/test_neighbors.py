"""Partitions by nearest neighbours: pairs by brute force, information by hand, moves, a fit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA
from sklearn.metrics import mutual_info_score
from torch import nn

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import Identity, NormalEmission
from pyro_crowdclust.guides import AmortizedGuide, MessagePassingGuide
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.minibatches import item_batches
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import AmortizedRecognition, GaussianRecognition, SkipMLP
from pyro_crowdclust.starts import NeighborPartition, PrincipalComponentStart, neighbors
from pyro_crowdclust.starts.neighbors import (
    join_by_neighbors,
    mutual_neighbors,
    neighbor_information,
    neighbor_loss,
)


@pytest.mark.parametrize("num_neighbors", [1, 3, 40])
def test_mutual_neighbors_are_those_of_brute_force(num_neighbors):
    points = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
    distance = torch.cdist(points, points).fill_diagonal_(torch.inf)
    near = [set(row.argsort()[: min(num_neighbors, 11)].tolist()) for row in distance]
    pairs = itertools.combinations(range(12), 2)
    expected = [[i, j] for i, j in pairs if j in near[i] and i in near[j]]
    assert mutual_neighbors(points, num_neighbors).tolist() == expected


def test_information_is_that_of_being_neighbours_on_being_together():
    rng = np.random.default_rng(0)
    cluster, times = rng.integers(3, size=20), 4
    ends = rng.integers(20, size=(60, 2))
    neighbors = np.zeros((3, 3))
    np.add.at(neighbors, (cluster[ends[:, 0]], cluster[ends[:, 1]]), 1 / 60)
    sizes = np.bincount(cluster) / 20
    found = neighbor_information(torch.tensor(neighbors), torch.tensor(sizes), times)
    # Every pair of items, as often as makes the chance pairs `times` as many as the neighbours.
    chance = np.array(list(itertools.product(range(20), repeat=2)))
    copies = 5
    assert copies * times * 60 == 3 * len(chance)
    pairs = np.concatenate([np.repeat(ends, copies, 0), np.repeat(chance, 3, 0)])
    together = cluster[pairs[:, 0]] == cluster[pairs[:, 1]]
    is_near = np.arange(len(pairs)) < 60 * copies
    expected = (1 + times) * mutual_info_score(together, is_near)
    assert found == pytest.approx(expected, rel=1e-9)


def block_table(rng: np.random.Generator, sizes: list[float]) -> torch.Tensor:
    """Neighbours in blocks: clusters 0-1, 2 and 3-4 belong together."""
    block = torch.tensor([0, 0, 1, 2, 2])
    rate = torch.where(block == block[:, None], 1.0, 0.01 + 0.01 * float(rng.random()))
    table = rate * torch.outer(torch.tensor(sizes), torch.tensor(sizes))
    return (table / table.sum()).double()


@pytest.mark.long
@pytest.mark.parametrize("chance_pairs", [1.0, 10.0, 35.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_joined_clusters_are_the_best_of_all_partitions(chance_pairs, seed):
    sizes = [0.2, 0.15, 0.3, 0.05, 0.3]
    joint = block_table(np.random.default_rng(seed), sizes)
    label = join_by_neighbors(joint, torch.tensor(sizes), chance_pairs)
    assert label.tolist() == [0, 0, 2, 3, 3]

    def information(labels: tuple[int, ...]) -> float:
        member = nn.functional.one_hot(torch.tensor(labels), 5).double()
        shares = member.mT @ torch.tensor(sizes).double()
        return neighbor_information(member.mT @ joint @ member, shares, chance_pairs)

    best = max(map(information, itertools.product(range(5), repeat=5)))
    assert information(tuple(label.tolist())) == pytest.approx(best, rel=1e-6)


def test_the_loss_is_the_sum_written_out():
    p = torch.randn(6, 4).softmax(-1)
    agreement = sum(np.log(float(p[i] @ p[i + 3])) for i in range(3)) / 3
    share = p.mean(0)
    expected = -agreement - 2.5 * float(-(share * share.log()).sum())
    assert float(neighbor_loss(p.log(), 2.5)) == pytest.approx(expected, rel=1e-9)


class Shaken:
    """A view: every feature moves a little."""

    num_random = 3

    def __call__(self, features: torch.Tensor, amounts: torch.Tensor) -> torch.Tensor:
        return features + 0.1 * amounts.to(features)


def clouds() -> tuple[torch.Tensor, np.ndarray]:
    """Two clouds, for which eight clusters are six too many."""
    generator = torch.Generator().manual_seed(0)
    human = torch.arange(300) % 2
    noise = torch.randn(300, 3, generator=generator)
    return torch.stack([8.0 * human, 0.0 * human, -8.0 * human], 1) + noise, human.numpy()


def classifier(num_clusters: int) -> nn.Module:
    return SkipMLP((3, 16, num_clusters))


quick = NeighborPartition(
    classifier, Shaken(), num_neighbors=60, steps=150, batch_size=64, learning_rate=2e-2
)


def test_two_clouds_are_two_clusters_and_the_same_ones_again():
    features, human = clouds()
    found = []
    for _ in range(2):
        torch.manual_seed(1)
        found.append(quick(features, 8, torch.Generator().manual_seed(2)))
    assert torch.equal(*found)
    torch.testing.assert_close(found[0].sum(1), torch.ones(300, dtype=torch.float64))
    assert clustering_accuracy(human, found[0].argmax(1).numpy()) > 0.97


def message_passing(model: SemiCrowdsourcedMixture) -> MessagePassingGuide:
    return MessagePassingGuide(model, GaussianRecognition(SkipMLP((3, 16, 4)), 2))


def amortized(model: SemiCrowdsourcedMixture) -> AmortizedGuide:
    return AmortizedGuide(model, AmortizedRecognition((3, 16, 16), 2, 8))


@pytest.mark.parametrize("make", [message_passing, amortized])
def test_every_guide_starts_at_the_partition(make):
    features, human = clouds()
    torch.manual_seed(1)
    emission = NormalEmission(SkipMLP((2, 8, 3)), 3)
    model = SemiCrowdsourcedMixture(DirichletWeights(8), GaussianComponents(8, 2), emission)
    guide = make(model)
    start = PrincipalComponentStart(partition=quick, partition_steps=100)
    data = CrowdData(features)
    start(model, guide, data, torch.Generator().manual_seed(2))
    found = guide.infer(next(item_batches(data, 300))).assignments.argmax(1).numpy()
    assert clustering_accuracy(human, found) > 0.97


def test_a_mixture_of_features_starts_at_the_partition():
    features, human = clouds()
    torch.manual_seed(1)
    model = SemiCrowdsourcedMixture(DirichletWeights(8), GaussianComponents(8, 3), Identity())
    guide = MessagePassingGuide(model)
    data = CrowdData(features.double())
    start = PrincipalComponentStart(partition=quick)
    start(model, guide, data, torch.Generator().manual_seed(2))
    found = guide.infer(next(item_batches(data, 300))).assignments.argmax(1).numpy()
    assert clustering_accuracy(human, found) > 0.97
    assert len(np.unique(found)) == 2


def test_items_are_near_in_principal_components(monkeypatch):
    monkeypatch.setattr(neighbors, "_COORDINATES", 2)
    features = torch.randn(20, 4, generator=torch.Generator().manual_seed(0)) + 7
    found = NeighborPartition(classifier, Shaken())._coordinates(features)
    expected = PCA(2).fit_transform(features.numpy())
    np.testing.assert_allclose(torch.cdist(found, found), cdist(expected, expected), atol=1e-3)


def test_the_rate_falls_over_the_second_half_and_amounts_are_between_minus_one_and_one(monkeypatch):
    rates, amounts = [], []

    class Adam(torch.optim.Adam):
        def step(self) -> None:
            rates.append(self.param_groups[0]["lr"])

    class Noted(Shaken):
        def __call__(self, features: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
            amounts.append(drawn)
            return features

    monkeypatch.setattr(torch.optim, "Adam", Adam)
    start = NeighborPartition(classifier, Noted(), steps=8, batch_size=100, learning_rate=0.4)
    start(clouds()[0], 2, torch.Generator().manual_seed(0))
    np.testing.assert_allclose(rates, 0.4 * np.minimum(1, 2 - np.arange(8) / 4))
    drawn = torch.cat(amounts)
    assert drawn.shape == (8 * 200, 3)
    assert -1 <= float(drawn.min()) < -0.99
    assert 0.99 < float(drawn.max()) <= 1


def test_one_item_has_no_neighbours():
    with pytest.raises(ValueError, match="at least 2 items, but there are 1"):
        quick(torch.zeros(1, 3), 8, torch.Generator())
