"""Contracts of annotators of pairs and of class labels, required and optional ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.random import Generator
from pyro.distributions import TorchDistribution
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.data.pair_answers import Outcomes, Sessions
from pyro_crowdclust.distributions.priors import ConjugatePosterior, ConjugatePrior
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.families import PosteriorSummary

# Numbers of labels, and of items, in each state in parallel chains; a state is a class if classes
# have no states.
LabelCounts = Float[np.ndarray, "*chain worker state label"]
ItemCounts = Float[np.ndarray, "*chain state"]


class Annotators(Protocol):
    """The contract of all models of workers."""

    @property
    def num_workers(self) -> int:
        """M, the number of workers."""

    def priors(self) -> Mapping[str, ConjugatePrior]:
        """Priors of the workers' unknown rates: global sites by name, of any family."""


class PairAnnotators(Annotators, Protocol):
    """Models of answers to the question "are these two the same?".

    Every site is in the plate of the workers.
    """

    def answer(
        self,
        same: Float[Tensor, " pair"],
        rates: Mapping[str, Float[Tensor, "worker size"]],
        worker: Int[Tensor, " pair"],
    ) -> TorchDistribution:
        """Likelihood of the answers, linear in ``same`` and in the statistics ``rates``."""

    def log_likelihood_ratio(
        self,
        rates: Mapping[str, Float[Tensor, "worker size"]],
        worker: Int[Tensor, " pair"],
        label: Float[Tensor, " pair"],
    ) -> Float[Tensor, " pair"]:
        """``log p(L | same) - log p(L | different)``, the weight of a message."""


@runtime_checkable
class LookAnnotators(Annotators, Protocol):
    """Models of answers given the look of a pair, common to all workers: ``AnsweredPartition``.

    Every site is in the plate of the workers.
    """

    @property
    def num_looks(self) -> int:
        """S, the number of looks, from "different" to "the same"."""

    def look_concentration(self, hard: bool, of_records: bool) -> Float[Tensor, "relation look"]:
        """Dirichlet parameters of the looks of pairs that are different, and that are the same.

        ``hard``: whether an item of the pair is hard to recognize. ``of_records``: whether items
        are compared with few others, so that most pairs that look the same are different.
        """

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data have answers of this kind."""

    def answer(
        self,
        look: Float[Tensor, "answer look"],
        rates: Mapping[str, Float[Tensor, "worker size"]],
        worker: Int[Tensor, " answer"],
    ) -> TorchDistribution:
        """Likelihood of the answers, linear in ``look`` and in the statistics ``rates``."""

    def first_looks(self, label: Float[Tensor, " answer"]) -> Float[Tensor, "answer look"]:
        """The look of each pair according to a single answer, for the start."""

    def summary_of_draws(
        self,
        posteriors: Mapping[str, ConjugatePosterior],
        given: Mapping[str, Float[Tensor, "draw worker size"]],
        looks: Float[Tensor, "draw relation look"],
        counts: Float[Tensor, "draw relation look"],
        interval: float,
    ) -> WorkerSummary:
        """Summary of the posterior of every worker over several draws of the partition.

        ``given`` has natural parameters of the workers' sites given every draw, ``looks`` those of
        the look probabilities, and ``counts`` the numbers of pairs with each look.
        """


@runtime_checkable
class SupportsItems(Protocol):
    """Annotators of pairs whose answers depend on the items themselves, such as hard ones."""

    def about(self, items: Int[Tensor, "pair 2"]) -> PairAnnotators:
        """The annotators of answers about these pairs of items, by their positions in the data."""


@runtime_checkable
class SupportsWithTrust(Protocol):
    """Annotators of pairs that can begin as reliable workers: for starts."""

    def with_trust(self, trust: tuple[float, float]) -> PairAnnotators:
        """The same workers, with these pseudo-counts of right and wrong answers as a prior."""


@runtime_checkable
class SupportsOutcomes(Protocol):
    """Annotators of pairs with other possible answers than yes and no."""

    @property
    def outcomes(self) -> Outcomes:
        """The possible answers about a pair."""


@runtime_checkable
class SupportsLapses(PairAnnotators, SupportsOutcomes, Protocol):
    """Annotators of pairs who answer some pages without looking: for diagnostics of pages.

    ``rates`` have ``attention`` in addition to the sites of the attentive workers.
    """

    @property
    def attentive(self) -> PairAnnotators:
        """The model of the workers on pages at which they look."""

    def answer_on(
        self,
        sessions: Sessions,
        attention: Float[Tensor, " session"],
        same: Float[Tensor, " pair"],
        rates: Mapping[str, Float[Tensor, "worker size"]],
    ) -> TorchDistribution:
        """Likelihood of the answers, given attention to each page: 0, 1 or a probability."""

    def log_odds(
        self,
        sessions: Sessions,
        label: Float[Tensor, " pair"],
        rates: Mapping[str, Float[Tensor, "worker size"]],
        same: Float[Tensor, " pair"],
    ) -> Float[Tensor, " session"]:
        """``log q(u = 1) - log q(u = 0)`` of every page, given s = P(same) of its pairs."""


class ClassAnnotators(Annotators, Protocol):
    """Models of the labels that workers give to items of every class."""

    @property
    def num_classes(self) -> int:
        """C, the number of classes."""

    def sample(self) -> dict[str, Tensor]:
        """Run the sites in a model; returns their values."""

    def log_answers(self, values: Mapping[str, Tensor]) -> Float[Tensor, "worker label state"]:
        """``log p(label | class)`` of every worker, linear in the sites' values.

        The states are the classes, or those within each of them (``SupportsStates``).
        """

    def summary(
        self, posteriors: Mapping[str, ConjugatePosterior], interval: float
    ) -> PosteriorSummary:
        """``p(label | class)``, ``[worker, class, label]``."""


@runtime_checkable
class SupportsTrustedWorkers(Protocol):
    """Class annotators some of whom are always right."""

    def trusted_workers(self) -> Bool[np.ndarray, " worker"]:
        """Whether each worker is always right."""


@runtime_checkable
class SupportsTrait(ClassAnnotators, Protocol):
    """Class annotators with a latent trait of the items, so that they err about the same items."""

    def at_points(
        self, posteriors: Mapping[str, ConjugatePosterior]
    ) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, "worker point label"]]:
        """Log shares of the items at points of the trait, and ``p(label | point)``."""


@runtime_checkable
class SupportsDraws(ClassAnnotators, Protocol):
    """Class annotators whose sites can be drawn given the classes of all items.

    Several chains are drawn in parallel: all arrays have an axis of chains in front, and the values
    in ``log_answers`` may have one, too.
    """

    def draw(
        self, values: Mapping[str, Tensor], counts: LabelCounts, items: ItemCounts, rng: Generator
    ) -> dict[str, Tensor]:
        """Values of the sites, from those of the previous draw and counts of the labels.

        The values include learned concentrations, which take a step towards their maximum.
        """


@runtime_checkable
class SupportsStates(Protocol):
    """Class annotators for which the items of a class have different states."""

    def sum_states(
        self, values: Mapping[str, Tensor], evidence: Float[Tensor, "*row state"]
    ) -> Float[Tensor, "*row class"]:
        """Evidence for classes from evidence for their states."""

    def draw_states(
        self, values: Mapping[str, Tensor], assignments: Float[Tensor, "item class"]
    ) -> Float[Tensor, "item state"]:
        """One-hot states of items of these classes."""

    def answer_probabilities(
        self,
        posteriors: Mapping[str, ConjugatePosterior],
        labels: LabelMatrix,
        item: Int[Tensor, " answer"],
        worker: Int[Tensor, " answer"],
        label: Int[Tensor, " answer"],
    ) -> Float[Tensor, "answer class"]:
        """``p(label | class)`` of answers that are not in ``labels``, given those that are."""
