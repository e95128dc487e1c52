"""Optional contracts of guides, each for a feature of results, training or moves."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.distributions.summaries import LocalPosterior, MixtureSummary, WorkerSummary
from pyro_crowdclust.families import PosteriorSummary
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.partitions.asked_pairs import AskedPairs


@runtime_checkable
class SupportsInfer(Protocol):
    """A guide that computes q(z) of items: for ``assignments``, ``predict`` and all moves."""

    def infer(self, batch: Batch) -> LocalPosterior:
        """q(z) of the items of a batch, given the answers in it."""


@runtime_checkable
class SupportsMixture(Protocol):
    """A guide of a mixture: for ``result.clusters``, ``components`` and the history."""

    def mixture(self) -> MixtureSummary:
        """Weights, locations and covariances of the components."""


@runtime_checkable
class SupportsFeatureWeight(Protocol):
    """A guide whose q(z) can be computed with another weight of the features after training."""

    @property
    def feature_weight(self) -> float:
        """tau, the power of the features' likelihood."""

    def read_at(self, feature_weight: float) -> SupportsFeatureWeight:
        """The same posterior with another tau, and another model if tau is part of the model."""


@runtime_checkable
class SupportsPartition(Protocol):
    """A guide that draws partitions, from which ``result`` computes clusters."""

    def partition_draws(self) -> Int[Tensor, "draw item"]:
        """The cluster of every item in every draw; numbers of clusters are arbitrary."""

    def random_pairs(self, data: CrowdData) -> AskedPairs | None:
        """The pairs that people were asked about, if any two items might have been asked about.

        Draws do not join items that no chain of these pairs connects, though they may be the same.
        """


@runtime_checkable
class SupportsWorkers(Protocol):
    """A guide of workers who answer about pairs: for ``result.workers``."""

    def workers(self, interval: float = 0.9) -> WorkerSummary | None:
        """Summary of every worker's rates and weight; None if the model has no workers."""


@runtime_checkable
class SupportsRateStatistics(Protocol):
    """A guide of workers who answer about pairs or pages: for ``result.pages``, merge moves."""

    def rate_statistics(self) -> dict[str, Float[Tensor, "worker size"]]:
        """E[t] of every site of the annotators, by name."""


@runtime_checkable
class SupportsConfusion(Protocol):
    """A guide of workers who give class labels: for ``result.confusion``."""

    def confusion(self, interval: float = 0.9) -> PosteriorSummary:
        """``p(label | class)`` of every worker, ``[worker, class, label]``."""


@runtime_checkable
class MovableGuide(SupportsInfer, SupportsRateStatistics, Protocol):
    """The contract of guides for structural moves.

    ``merge`` and ``empty`` change everything that has a row per cluster, in the guide and its
    model, in place. This must consist of parameters and buffers, which are restored if a move is
    rejected.
    """

    def merge(self, first: int, second: int) -> int:
        """Move everything in one cluster to the other; returns the one that is now empty."""

    def empty(self, cluster: int) -> None:
        """Remove everything from a cluster."""


class Coupling(Protocol):
    """Terms of the bound that are quadratic in q(z), computed as messages between items.

    With ``m_n(q)`` the message to item n, linear in the q of others, the terms are
    ``sum_n <q_n, m_n(q)> / 2``.
    """

    num_items: int

    def messages(self, assignments: Float[Tensor, "item cluster"], last: bool = False) -> Tensor:
        """The message to each of the first ``num_items`` items; ``last`` in the last round."""
