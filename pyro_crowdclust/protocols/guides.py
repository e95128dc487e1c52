"""What a guide may be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.distributions.summaries import LocalPosterior, MixtureSummary, WorkerSummary
from pyro_crowdclust.families import PosteriorSummary
from pyro_crowdclust.minibatches.batch import Batch


@runtime_checkable
class SupportsInfer(Protocol):
    """A guide that knows q of the items: for ``assignments``, ``predict`` and all moves."""

    def infer(self, batch: Batch) -> LocalPosterior:
        """q(z) of the items of a batch, with the answers that it holds."""


@runtime_checkable
class SupportsMixture(Protocol):
    """A guide of a mixture: for ``result.clusters``, ``components`` and the history."""

    def mixture(self) -> MixtureSummary:
        """Weights, and what the components look like."""


@runtime_checkable
class SupportsSharpness(Protocol):
    """A guide whose q(z) can be read, once trained, with features that count less, or more."""

    @property
    def sharpness(self) -> float:
        """tau, the power by which features count."""

    def read_at(self, sharpness: float) -> SupportsSharpness:
        """The same posterior with another tau, of another model where that has it, too."""


@runtime_checkable
class SupportsPartition(Protocol):
    """A guide that draws partitions: ``result`` then reads clusters from these draws."""

    def partition_draws(self) -> Int[Tensor, "draw item"]:
        """The cluster of every item in every draw, by any numbers."""


@runtime_checkable
class SupportsMakeRoom(Protocol):
    """A guide that remembers something of every item: for ``update``."""

    def make_room(self, num_items: int) -> None:
        """Have room for so many items, new ones last."""


@runtime_checkable
class SupportsWorkers(Protocol):
    """A guide of workers who answer about pairs: for ``result.workers``."""

    def workers(self, interval: float = 0.9) -> WorkerSummary | None:
        """Rates and weight of every worker; None if the model has no workers."""


@runtime_checkable
class SupportsRateStatistics(Protocol):
    """A guide of workers who say what belongs together: for ``result.pages`` and merge moves."""

    def rate_statistics(self) -> dict[str, Float[Tensor, "worker size"]]:
        """E[t] of every site of the annotators, by name."""


@runtime_checkable
class SupportsConfusion(Protocol):
    """A guide of workers who give class labels: for ``result.confusion``."""

    def confusion(self, interval: float = 0.9) -> PosteriorSummary:
        """``p(label | class)`` of every worker, ``[worker, class, label]``."""


@runtime_checkable
class SupportsAnswerProbabilities(Protocol):
    """A guide of class labels that says how likely other labels are, of the same items."""

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
    """A guide that learns the classes of clusters from known labels."""

    def class_table(self) -> Float[Tensor, "cluster class"] | None:
        """``E[rho_kc]``; None if the model has no such table."""


@runtime_checkable
class SupportsItemLogLikelihood(Protocol):
    """A guide whose latents depend on the cluster, which it sums out itself."""

    def item_log_likelihood(
        self, sites: Mapping[str, Tensor], batch: Batch, num_draws: int
    ) -> Float[Tensor, " item"]:
        """``log p(o | Theta)``, with so many draws of each latent."""


@runtime_checkable
class SupportsEpochs(Protocol):
    """A guide that anneals something."""

    def set_epoch(self, epoch: float) -> None:
        """How far training is, in epochs; told before every step."""


@runtime_checkable
class MovableGuide(Protocol):
    """What structural moves ask of a guide.

    A verb changes everything that has a row per cluster, of the guide and of its model, in place:
    parameters and buffers, which is what a rejected move is undone by.
    """

    def infer(self, batch: Batch) -> LocalPosterior:
        """q(z) of a batch."""

    def rate_statistics(self) -> dict[str, Float[Tensor, "worker size"]]:
        """E[t] of the workers' rates, by site."""

    def merge(self, first: int, second: int) -> int:
        """Give what one cluster holds to the other; returns the one that is now empty."""

    def empty(self, cluster: int) -> None:
        """Let a cluster hold nothing."""


@runtime_checkable
class SupportsSetRates(Protocol):
    """A guide whose workers' rates are point estimates: for the callback ``RateMoves``."""

    def set_rates(self, same: Float[Tensor, " pair"], batch: Batch) -> None:
        """Put the rates where they are best, given how likely each answered pair is the same."""


class Coupling(Protocol):
    """Terms of the bound that are quadratic in q(z), as messages between items.

    With ``m_n(q)`` the message to item n, linear in the q of others, the terms are
    ``sum_n <q_n, m_n(q)> / 2``.
    """

    num_items: int

    def messages(self, assignments: Float[Tensor, "item cluster"], last: bool = False) -> Tensor:
        """What each of the first ``num_items`` items hears; ``last`` in the last round."""
