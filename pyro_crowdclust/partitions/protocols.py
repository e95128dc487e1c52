"""What a prior of partitions must do, and what it can ask of the workers where training begins."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.partitions.asked_pairs import AskedPairs
from pyro_crowdclust.partitions.choices import Choices


class Heard(NamedTuple):
    """What answers say by workers who have learned from a partition.

    Attributes
    ----------
    different, same
        ``log p(answers | different)`` and ``log p(answers | same)`` of every pair.
    divergence
        KL of the workers from their prior.
    state
        Natural parameters of the workers' sites, by name.
    """

    different: Float[Tensor, " pair"]
    same: Float[Tensor, " pair"]
    divergence: float
    state: dict[str, Tensor]


class StartingWorkers(Protocol):
    """Workers of whom as much is known as can be before there is a partition.

    Attributes
    ----------
    shares
        Share of "same" among the answers about every pair.
    same
        How many of the asked pairs are the same, as far as is known.
    """

    shares: Float[Tensor, " pair"]
    same: float

    def evidence(self) -> Float[Tensor, "kind pair"]:
        """What the answers say for "same", in nats, in the several ways in which one may begin."""

    def learn(self, together: Float[Tensor, " pair"], rounds: int = 1) -> Heard:
        """Learn from pairs that are one cluster with these probabilities."""


class Start(NamedTuple):
    """Where a chain begins: a partition, and the workers who learned from it."""

    labels: Int[Tensor, " item"]
    workers: dict[str, Tensor]


class PartitionPrior(Protocol):
    """The verbs of a prior of partitions.

    Attributes
    ----------
    closure, asked
        What a pair in a cluster adds that nobody, or somebody, was asked about.
    joins_strangers
        Whether an item may join a cluster in which it was compared with nobody.
    powers
        How much answers count for each of the replicas that draw partitions side by side, 1 for
        the last.
    """

    @property
    def closure(self) -> float:
        """What a pair in a cluster adds that nobody was asked about."""

    @property
    def asked(self) -> float:
        """What a pair in a cluster adds that somebody was asked about."""

    joins_strangers: bool
    powers: tuple[float, ...]

    def start(
        self, workers: StartingWorkers, pairs: AskedPairs, generator: torch.Generator
    ) -> list[Start]:
        """Where chains begin, each elsewhere; the prior itself may begin elsewhere, too."""

    def log_join(self, num_items: int) -> list[float]:
        """Log weight of joining a cluster of 0, 1, ..., num_items others."""

    def log_alone(self, num_clusters: int, num_items: int) -> float:
        """Log weight of being alone beside so many clusters, of so many items in all."""

    def learn(self, labels: Int[Tensor, " item"], pairs: AskedPairs, choices: Choices) -> None:
        """A step towards the prior that suits clusters and the choices that led to them."""

    def log_prob(self, labels: Int[Tensor, " item"], pairs: AskedPairs) -> Float[Tensor, ""]:
        """``log p(z)``, perhaps up to a constant."""
