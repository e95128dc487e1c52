"""The protocols of priors of partitions, and of the workers at the start of training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.partitions.asked_pairs import AskedPairs
from pyro_crowdclust.partitions.choices import Choices


class LearnedWorkers(NamedTuple):
    """The evidence of the answers, after the workers have learned from a partition.

    Attributes
    ----------
    different, same
        ``log p(answers | different)`` and ``log p(answers | same)`` of every pair.
    divergence
        KL divergence of the workers' posterior from their prior.
    state
        Natural parameters of the workers' sites, by name.
    """

    different: Float[Tensor, " pair"]
    same: Float[Tensor, " pair"]
    divergence: float
    state: dict[str, Tensor]


class StartingWorkers(Protocol):
    """Workers before there is a partition, with what is known about them and the pairs.

    Attributes
    ----------
    shares
        Share of "same" among the answers about every pair.
    same
        Estimated share of the asked pairs that are the same.
    """

    shares: Float[Tensor, " pair"]
    same: float

    def evidence(self) -> Float[Tensor, "kind pair"]:
        """The evidence of the answers for "same", in nats, by each of several ways to begin."""

    def learn(self, together: Float[Tensor, " pair"], rounds: int = 1) -> LearnedWorkers:
        """Learn from pairs whose items are in one cluster with these probabilities."""


class ChainStart(NamedTuple):
    """Where a chain begins: a partition, and the workers who learned from it."""

    labels: Int[Tensor, " item"]
    workers: dict[str, Tensor]


class PartitionPrior(Protocol):
    """The verbs of a prior of partitions.

    Attributes
    ----------
    closure, asked
        What every pair in a cluster adds to ``log p(z)``, if nobody or somebody was asked about it.
    joins_strangers
        Whether an item may join a cluster without any item that it was compared with.
    powers
        The powers of the likelihood in the replicas that draw partitions side by side, 1 for the
        last.
    """

    @property
    def closure(self) -> float:
        """What every pair in a cluster adds to ``log p(z)`` if nobody was asked about it."""

    @property
    def asked(self) -> float:
        """What every pair in a cluster adds to ``log p(z)`` if somebody was asked about it."""

    joins_strangers: bool
    powers: tuple[float, ...]

    def start(
        self, workers: StartingWorkers, pairs: AskedPairs, generator: torch.Generator
    ) -> list[ChainStart]:
        """The starts of the chains. The parameters of the prior may be changed to fit them, too."""

    def log_join(self, num_items: int) -> list[float]:
        """Log weights of joining a cluster of 0, 1, ..., num_items other items."""

    def log_alone(self, num_clusters: range, num_items: int) -> Sequence[float]:
        """Log weights of being alone beside so many clusters each, in a part of so many items."""

    def learn(self, labels: Int[Tensor, " item"], pairs: AskedPairs, choices: Choices) -> None:
        """A step of the prior's parameters towards these clusters and the choices behind them."""

    def log_prob(self, labels: Int[Tensor, " item"], pairs: AskedPairs) -> Float[Tensor, ""]:
        """``log p(z)``, perhaps up to a constant."""
