"""What annotators of pairs and of class labels must be, and what they may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int
from pyro.distributions import TorchDistribution
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.data.pair_answers import Outcomes, Sessions
from pyro_crowdclust.distributions.priors import ConjugatePosterior, ConjugatePrior
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.families import PosteriorSummary


class Annotators(Protocol):
    """What all have who say what belongs together; every site is in the plate of the workers."""

    @property
    def num_workers(self) -> int:
        """M."""

    def priors(self) -> Mapping[str, ConjugatePrior]:
        """What is unknown of every worker: global sites by name, of any family."""


class PairAnnotators(Annotators, Protocol):
    """How workers answer "are these two the same?"."""

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
    """How workers answer by what a pair looks like to everybody: for ``AnsweredPartition``."""

    @property
    def num_looks(self) -> int:
        """S: how many looks there are, from "different" to "the same"."""

    def look_concentration(self, hard: bool, of_records: bool) -> Float[Tensor, "relation look"]:
        """Dirichlet parameters of how pairs look that are different, and that are the same.

        ``hard`` is whether an item of the pair is hard to recognize, ``of_records`` whether items
        are compared with few others, so that most pairs that look the same are not.
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
        """What each pair looks like as one answer says."""

    def summary_of_draws(
        self,
        posteriors: Mapping[str, ConjugatePosterior],
        given: Mapping[str, Float[Tensor, "draw worker size"]],
        looks: Float[Tensor, "draw relation look"],
        counts: Float[Tensor, "draw relation look"],
        interval: float,
    ) -> WorkerSummary:
        """What is known of every worker over several draws of the partition.

        ``given`` are natural parameters of the workers' sites given every draw, ``looks`` those of
        how pairs look, and ``counts`` how many pairs looked so.
        """


@runtime_checkable
class SupportsLooks(Protocol):
    """Annotators of pairs of whom is known what they say of pairs whatever these look like."""

    def looks(self) -> LookAnnotators:
        """The same workers, by what a pair looks like."""


@runtime_checkable
class SupportsItems(Protocol):
    """Annotators of pairs to whom it matters which two items are asked about: hard ones, say."""

    def about(self, items: Int[Tensor, "pair 2"]) -> PairAnnotators:
        """The annotators of answers about these pairs of items, by their positions in the data."""


@runtime_checkable
class SupportsTrust(Protocol):
    """Annotators of pairs who can begin as reliable: for starts."""

    def with_trust(self, trust: tuple[float, float]) -> PairAnnotators:
        """The same workers with these pseudo-counts of right and wrong answers."""


@runtime_checkable
class SupportsMoreWorkers(Protocol):
    """Annotators of which arguments are about single workers, or hold others: for ``update``."""

    def with_workers(self, rows: Int[Tensor, " before"], number: int) -> Any | None:
        """The same for so many workers, those of before in these rows; None if it cannot be."""


@runtime_checkable
class SupportsOutcomes(Protocol):
    """Annotators of pairs who know what can be said; all others say yes or no."""

    @property
    def outcomes(self) -> Outcomes:
        """What can be said of a pair."""


@runtime_checkable
class SupportsLapses(PairAnnotators, SupportsOutcomes, Protocol):
    """Annotators of pairs who do not look at some of their pages: for diagnostics of pages.

    ``rates`` hold ``attention`` beside the sites of the attentive workers.
    """

    @property
    def attentive(self) -> PairAnnotators:
        """The workers when they look."""

    def answer_on(
        self,
        sessions: Sessions,
        attention: Float[Tensor, " session"],
        same: Float[Tensor, " pair"],
        rates: Mapping[str, Float[Tensor, "worker size"]],
    ) -> TorchDistribution:
        """Likelihood of the answers, by who looks at which page, or how probably."""

    def log_odds(
        self,
        sessions: Sessions,
        label: Float[Tensor, " pair"],
        rates: Mapping[str, Float[Tensor, "worker size"]],
        same: Float[Tensor, " pair"],
    ) -> Float[Tensor, " session"]:
        """``log q(u = 1) - log q(u = 0)`` of every page, given s = P(same) of its pairs."""


class ClassAnnotators(Protocol):
    """Which label a worker gives to an item of which class."""

    num_workers: int
    num_classes: int

    def priors(self) -> Mapping[str, ConjugatePrior]:
        """Global sites by name; posteriors begin at these."""

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
class SupportsVotes(Protocol):
    """Class annotators some of whom are known to be better than others: for starts."""

    def votes(self, labels: LabelMatrix) -> Float[Tensor, "item class"]:
        """How much speaks for each class before anything is learned."""


@runtime_checkable
class SupportsWorth(Protocol):
    """Class annotators of whom each may count as less than one independent worker."""

    @property
    def worth(self) -> Float[Tensor, " worker"] | None:
        """As how many each counts; None where all count in full."""


@runtime_checkable
class SupportsTrusted(Protocol):
    """Class annotators some of whom are always right."""

    def trusted_workers(self) -> Bool[np.ndarray, " worker"]:
        """Who is."""


@runtime_checkable
class SupportsTrait(ClassAnnotators, Protocol):
    """Class annotators who see items along a trait, so that all of them err about the same ones."""

    def at_points(
        self, posteriors: Mapping[str, ConjugatePosterior]
    ) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, "worker point label"]]:
        """Log shares of the items at points of the trait, and ``p(label | point)``."""


@runtime_checkable
class SupportsUnheard(ClassAnnotators, Protocol):
    """Class annotators of whom is known what they are like by the answers about other items."""

    def log_unheard(
        self,
        posteriors: Mapping[str, ConjugatePosterior],
        labels: LabelMatrix,
        classes: Float[Tensor, "item class"],
    ) -> Float[Tensor, "answer class"]:
        """``log E[p(label | class)]`` of every answer, but for what it taught of its worker.

        ``classes`` are q(y) as of which the answers were counted.
        """


@runtime_checkable
class SupportsDraws(ClassAnnotators, Protocol):
    """Class annotators whose sites can be drawn where the classes of all items are known.

    Chains are drawn side by side: all arrays have an axis of chains in front, and so may the values
    of ``log_answers``.
    """

    def draw(
        self,
        values: Mapping[str, Tensor],
        counts: Float[np.ndarray, "*chain worker state label"],
        items: Float[np.ndarray, "*chain state"],
        rng: np.random.Generator,
    ) -> dict[str, Tensor]:
        """Values of the sites, from those of the draw before and how often who said what of what.

        ``items`` are in each state, which is a class where classes have no states. Learned
        concentrations, which take a step towards where they are likeliest, are values, too.
        """


@runtime_checkable
class SupportsStateDraws(SupportsDraws, Protocol):
    """Class annotators whose sites can be drawn where the states of all items are known."""

    def log_states(
        self, values: Mapping[str, Tensor], evidence: Float[Tensor, "*row column"]
    ) -> Float[Tensor, "*row class state"]:
        """``log p(a_i, s_i = s | y_i = k)`` from ``log p(a_i | k, s)``."""


@runtime_checkable
class SupportsStates(Protocol):
    """Class annotators under whom the items of a class have states."""

    def sum_states(
        self, values: Mapping[str, Tensor], evidence: Float[Tensor, "*row state"]
    ) -> Float[Tensor, "*row class"]:
        """Evidence of classes from evidence of their states."""

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
