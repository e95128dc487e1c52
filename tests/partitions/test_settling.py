"""Which partition training begins with: the one of the best bound, each written out."""

from __future__ import annotations

import math

import pytest
import torch

from pyro_crowdclust.partitions import AskedPairs, FewClusters, settling
from pyro_crowdclust.partitions.annealing import Annealed
from pyro_crowdclust.partitions.protocols import LearnedWorkers

from .partitions import complete_pairs

FIVE = complete_pairs(5)
CANDIDATES = torch.tensor([[0, 0, 0, 1, 1], [0, 1, 0, 1, 2], [0, 0, 1, 2, 2], [0, 1, 1, 1, 1]])


class Workers:
    """Workers who learn at random, but the same from the same partition."""

    def __init__(self, seed: int, divergence: float = 5.0) -> None:
        self.seed, self.divergence = seed, divergence
        self.shares, self.same = torch.rand(FIVE.num_pairs), 0.3

    def evidence(self) -> torch.Tensor:
        return torch.randn(2, FIVE.num_pairs, generator=torch.Generator().manual_seed(self.seed))

    def learn(self, together: torch.Tensor, rounds: int = 1) -> LearnedWorkers:
        place = int((together * 2 ** torch.arange(len(together))).sum()) + self.seed
        generator = torch.Generator().manual_seed(place)
        different, same = 3 * torch.randn(2, FIVE.num_pairs, generator=generator).double() - 4
        divergence = self.divergence * float(torch.rand((), generator=generator))
        return LearnedWorkers(different, same, divergence, {"seed": torch.tensor(place)})


@pytest.mark.parametrize("seed", range(8))
def test_the_candidate_with_the_best_bound_is_taken(seed, monkeypatch):
    learned_in_sweeps = []

    def sweep(labels, pairs, evidence, prior):
        learned_in_sweeps.append(evidence)
        return labels, None

    monkeypatch.setattr(settling, "sweep", sweep)
    prior, workers = FewClusters(), Workers(seed, divergence=20.0)
    start = settling.settled(prior, CANDIDATES, workers, FIVE)
    bounds, expected = [], []
    for labels in CANDIDATES:
        together = FIVE.together(labels)
        learned = workers.learn(together.double())
        said = sum(learned.same[k] if t else learned.different[k] for k, t in enumerate(together))
        bounds.append(float(said + prior.log_prob(labels, FIVE)) - learned.divergence)
        expected.append(learned.same - learned.different)
    best = max(range(len(bounds)), key=bounds.__getitem__)
    assert torch.equal(start.labels, CANDIDATES[best])
    assert start.workers == workers.learn(FIVE.together(CANDIDATES[best]).double()).state
    rounds = len(learned_in_sweeps) // len(CANDIDATES)
    for k, evidence in enumerate(learned_in_sweeps):
        assert torch.equal(evidence, expected[k // rounds])


@pytest.mark.parametrize(("seed", "many"), [(0, 3), (1, 3), (2, 3), (3, 3), (4, 3), (5, 9)])
def test_replicas_begin_at_the_best_chain_and_at_those_of_many_clusters(seed, many, monkeypatch):
    """Their labels are apart where no pairs connect them; the best comes last."""
    pairs, workers, given = AskedPairs.of(torch.tensor([[0, 1], [2, 3]]), 4), Workers(seed), []
    monkeypatch.setattr(settling, "_NUMBERS", [2, 3])
    monkeypatch.setattr(settling, "_MANY", many)
    generator = torch.Generator().manual_seed(seed)

    def anneal(evidence, asked, numbers, concentration, chance):
        given.append(evidence)
        count = len(numbers)
        together = torch.rand(count, FIVE.num_pairs, generator=generator).round().double()
        labels = torch.tensor([0, 0, 0, 0]).repeat(count, 1)
        given.append(Annealed(labels, together, torch.randn(count, generator=generator)))
        return given[-1]

    monkeypatch.setattr(settling, "anneal", anneal)
    starts = settling.annealed(1.0, workers, pairs, torch.Generator())
    _, first, evidence, second = given
    learned = [workers.learn(together) for together in first.together]
    for one, own in zip(learned, evidence, strict=True):
        assert torch.equal(own, one.same - one.different)
    # log p(K) of two and three clusters in turn.
    bounds = [
        float(one.different.sum()) - one.divergence + float(chain) - math.log([6, 12][place % 2])
        for place, (one, chain) in enumerate(zip(learned, second.log_evidence, strict=True))
    ]
    best = sorted(range(len(bounds)), key=lambda place: -bounds[place])
    # Where no chain has so many clusters, the others begin at the best, too.
    of_many = [place for place in best if place % 2] if many == 3 else best
    expected = [*of_many[:3], best[0]]
    assert [start.workers for start in starts] == [learned[place].state for place in expected]
    for start in starts:
        # All in one cluster, of two parts.
        assert start.labels.tolist() == [0, 0, 1, 1]
