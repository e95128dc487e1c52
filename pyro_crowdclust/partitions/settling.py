"""Chooses where training begins: the best of several partitions, after the workers have learned."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.partitions.annealing import anneal
from pyro_crowdclust.partitions.asked_pairs import AskedPairs
from pyro_crowdclust.partitions.protocols import ChainStart, PartitionPrior, StartingWorkers
from pyro_crowdclust.partitions.sweeps import sweep

# Rounds of learning by the workers, each with a sweep, for every partition to begin with.
_SETTLING = 4
# Numbers of clusters that chains are annealed with, and number of chains for each.
_NUMBERS, _CHAINS = [2, 3, 4, 5, 6, 8, 10, 14, 20], 2
# Other replicas begin at the best chains with at least this many clusters; number of replicas.
_MANY, _REPLICAS = 8, 3


def settled(
    prior: PartitionPrior,
    candidates: Iterable[Int[Tensor, " item"]],
    workers: StartingWorkers,
    pairs: AskedPairs,
) -> ChainStart:
    """The partition with the best bound after some sweeps.

    Parameters
    ----------
    prior
        Prior of the partition.
    candidates
        Partitions at which the sweeps begin.
    workers
        The workers, who learn from every partition.
    pairs
        The pairs that were compared.
    """
    best, largest = None, -torch.inf
    for labels in candidates:
        for _ in range(_SETTLING):
            learned = workers.learn(pairs.together(labels).double())
            labels, _ = sweep(labels, pairs, learned.same - learned.different, prior)
        bound = float(torch.where(pairs.together(labels), learned.same, learned.different).sum())
        bound += float(prior.log_prob(labels, pairs)) - learned.divergence
        if best is None or bound > largest:
            best, largest = ChainStart(labels, learned.state), bound
    assert best is not None  # there is always a candidate
    return best


def annealed(
    concentration: float,
    workers: StartingWorkers,
    pairs: AskedPairs,
    generator: torch.Generator,
) -> list[ChainStart]:
    """Where draws begin: the best of annealed chains, and the best of those with many clusters.

    Chains with every number of clusters are annealed with each kind of evidence, and then again
    with that of the workers who learned from the first result. The best have the largest bounds,
    those of ``q(z) propto p(z) exp E[log p(L | z)]``, whose normalizer annealing estimates, times
    p(K). Where answers are few, chains that differ are about equally good. Moves of single items
    join clusters more easily than they divide one, so that the other replicas begin with many.

    Parameters
    ----------
    concentration
        a of every cluster.
    workers
        The workers, who learn from every chain.
    pairs
        The pairs that were compared.
    generator
        Random generator.

    Returns
    -------
    The starts; the best comes last.
    """
    numbers = [number for number in _NUMBERS if number < pairs.num_items] or [1]
    evidence = workers.evidence()
    chains = torch.tensor(numbers * _CHAINS * len(evidence))
    evidence = evidence.repeat_interleave(len(numbers) * _CHAINS, 0)
    first = anneal(evidence, pairs, chains, concentration, generator)
    learned = [workers.learn(together, _SETTLING) for together in first.together]
    bounds = torch.tensor([float(one.different.sum()) - one.divergence for one in learned])
    evidence = torch.stack([one.same - one.different for one in learned])
    found = anneal(evidence, pairs, chains, concentration, generator)
    log_prior = -(chains * (chains + 1.0)).log()
    bounds = bounds + found.log_evidence + log_prior
    order = bounds.argsort(descending=True).tolist()
    many = [chain for chain in order if chains[chain] >= _MANY] or order
    chosen = [*many[:_REPLICAS], order[0]]
    return [ChainStart(pairs.split(found.labels[chain]), learned[chain].state) for chain in chosen]
