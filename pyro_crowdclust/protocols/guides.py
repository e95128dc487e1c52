"""Optional contracts of guides, each for a feature of results, training or moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.label_matrix import LabelMatrix
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
class SupportsSharpness(Protocol):
    """A guide whose q(z) can be computed with another weight of the features after training."""

    @property
    def sharpness(self) -> float:
        """tau, the power of the features' likelihood."""

    def read_at(self, sharpness: float) -> SupportsSharpness:
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
class SupportsMakeRoom(Protocol):
    """A guide that stores values for every item: for ``update``."""

    def make_room(self, num_items: int) -> None:
        """Extend the stored values to ``num_items`` items, with the new ones last."""


@runtime_checkable
class SupportsWorkers(Protocol):
    """A guide of workers who answer about pairs: for ``result.workers``."""

    def workers(self, interval: float = 0.9) -> WorkerSummary | None:
        """Summary of every worker's rates and weight; None if the model has no workers."""


@runtime_checkable
class SupportsWorkersGiven(Protocol):
    """A guide whose intervals of workers' rates are wider where the clusters are in doubt."""

    def workers_given(self, data: CrowdData, interval: float = 0.9) -> WorkerSummary | None:
        """``workers``, with the doubt about the clusters of these data, those of training."""


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
class SupportsConfusionGiven(Protocol):
    """A guide whose confusion matrices are wider where the classes are in doubt."""

    def confusion_given(self, data: CrowdData, interval: float = 0.9) -> PosteriorSummary:
        """``confusion``, with the doubt about the classes of these data, those of training."""


@runtime_checkable
class SupportsAnswerProbabilities(Protocol):
    """A guide of class labels that predicts further labels of the same items."""

    def answer_probabilities(
        self,
        labels: LabelMatrix,
        item: Int[Tensor, " answer"],
        worker: Int[Tensor, " answer"],
        label: Int[Tensor, " answer"],
    ) -> Float[Tensor, "answer class"]:
        """``p(label | class)`` of answers that are not in ``labels``, given those that are."""


@runtime_checkable
class SupportsClassTable(Protocol):
    """A guide that learns the class probabilities of clusters from known labels."""

    def class_table(self) -> Float[Tensor, "cluster class"] | None:
        """``E[rho_kc]``; None if the model has no such table."""


@runtime_checkable
class SupportsItemLogLikelihood(Protocol):
    """A guide whose latents depend on the cluster, and which sums over both itself."""

    def item_log_likelihood(
        self, sites: Mapping[str, Tensor], batch: Batch, num_draws: int
    ) -> Float[Tensor, " item"]:
        """``log p(o | Theta)``, with ``num_draws`` draws of each latent."""


@runtime_checkable
class SupportsBeforeStep(Protocol):
    """A guide with something to do once before every step of training, such as to draw."""

    def before_step(self, batch: Batch) -> None:
        """Prepare for a step on the batch; to run the guide then changes nothing."""


@runtime_checkable
class SupportsEpochs(Protocol):
    """A guide with something that is annealed during training."""

    def set_epoch(self, epoch: float) -> None:
        """Set the number of epochs done so far (a fraction within epochs); called at every step."""


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


@runtime_checkable
class SupportsSetRates(Protocol):
    """A guide whose workers' rates are point estimates: for the callback ``RateMoves``."""

    def set_rates(self, same: Float[Tensor, " pair"], batch: Batch) -> None:
        """Set the rates to their optimum, given P(same) of each answered pair."""


class Coupling(Protocol):
    """Terms of the bound that are quadratic in q(z), computed as messages between items.

    With ``m_n(q)`` the message to item n, linear in the q of others, the terms are
    ``sum_n <q_n, m_n(q)> / 2``.
    """

    num_items: int

    def messages(self, assignments: Float[Tensor, "item cluster"], last: bool = False) -> Tensor:
        """The message to each of the first ``num_items`` items; ``last`` in the last round."""
