"""What a model and a guide ask of annotators, of pairs or of pages, by the same verbs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyro
import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.annotators.graded import GradedAnswers
from pyro_crowdclust.annotators.lapsing import LapsingWorkers, SessionCoupling
from pyro_crowdclust.annotators.page_owners import PageOwners
from pyro_crowdclust.annotators.pair_messages import PairCoupling, answer_gain
from pyro_crowdclust.annotators.pair_owners import PairOwners
from pyro_crowdclust.annotators.pairs import summarize_pair_workers
from pyro_crowdclust.annotators.sorted_pages import PAGE_STATES, PageCoupling, SortedPages
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.distributions.pages import (
    AtHome,
    GroupPlacement,
    HomesAtMean,
    PageHomes,
    mean_homes,
)
from pyro_crowdclust.distributions.pairs import SameCluster, components_together
from pyro_crowdclust.distributions.plates import FullPlate
from pyro_crowdclust.distributions.point_estimates import PointEstimate
from pyro_crowdclust.distributions.priors import ConjugatePosterior
from pyro_crowdclust.distributions.statistics import Assignment, ConjugateAtMean
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.families import Beta, Categorical, PosteriorSummary
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.pages import BatchPages
from pyro_crowdclust.protocols import PairAnnotators, SupportsCheck, SupportsItems

Rates = Mapping[str, Float[Tensor, "worker size"]]
WorkerSites = Mapping[str, ConjugatePosterior | PointEstimate]


class OwnersEvidence(Protocol):
    """What is said of c, where clusters own components.

    It adds ``sum_{k<l} B_kl <c_k, c_l> + f(c)`` to the bound, with a convex f.
    """

    @property
    def gain(self) -> Float[Tensor, "component component"]:
        """What the bound gains if two components are one cluster, or about so much."""

    @property
    def between(self) -> Float[Tensor, "component component"]:
        """B, symmetric; the diagonal is not read."""

    def slope(
        self, owners: Float[Tensor, "component cluster"]
    ) -> Float[Tensor, "component cluster"]:
        """The gradient of f, by which f is nowhere below ``f(c) + <slope, c' - c>``."""

    def bound(self, owners: Float[Tensor, "component cluster"]) -> float:
        """What is added, but for what c has no part in."""


class AnswerSites(Protocol):
    """The verbs; ``rates`` are the statistics of the workers' global sites, by name."""

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data have answers of this kind."""

    def in_batch(self, batch: Batch) -> bool:
        """Whether a batch has answers."""

    def sample(self, z: Tensor, rates: Rates, batch: Batch) -> None:
        """Run the model's local sites."""

    def sample_guide(self, z: Tensor, rates: Rates, batch: Batch) -> None:
        """Run the guide's, given q(z)."""

    def coupling(
        self, rates: Rates, batch: Batch, dtype: torch.dtype, weighted: bool = False
    ) -> PairCoupling | SessionCoupling | PageCoupling:
        """Messages between the items; ``weighted`` ones count by the weights of answers."""

    def merge_gain(self, rates: Rates, assignments: Tensor, batch: Batch) -> Tensor:
        """What the bound gains from the answers if two clusters were one."""

    def owners_evidence(self, rates: Rates, assignments: Tensor, batch: Batch) -> OwnersEvidence:
        """What the answers say of which components are one cluster."""

    def summarize(self, sites: WorkerSites, interval: float) -> WorkerSummary:
        """What is known of every worker, by the names that a table has for it."""

    def first_points(self, rate: float) -> dict[str, Float[Tensor, "worker ..."]]:
        """Where point estimates of rates start."""


def summarize_workers(
    annotators: PairAnnotators | SortedPages | None, sites: WorkerSites, interval: float
) -> WorkerSummary | None:
    """What the posteriors (or points) of the annotators' sites say of every worker.

    Of no annotators that is None.
    """
    return None if annotators is None else sites_of(annotators).summarize(sites, interval)


def sites_of(
    annotators: PairAnnotators | SortedPages,
    owners: Float[Tensor, "component cluster"] | None = None,
) -> AnswerSites:
    """The verbs of an annotator model: of sorted pages, or of pairs, one's own included.

    Parameters
    ----------
    annotators
        The model.
    owners
        The cluster of every component or its probabilities, where clusters own components
        (``Ownership``); assignments are then those of components.
    """
    if isinstance(annotators, LapsingWorkers):
        return SessionSites(annotators, owners)
    if isinstance(annotators, SortedPages):
        return PageSites(annotators, owners)
    return PairSites(annotators, owners)


def told_of_items(annotators: PairAnnotators, batch: Batch) -> PairAnnotators:
    """The annotators, told which two items every answer is about, if they want to know."""
    if isinstance(annotators, SupportsItems):
        return annotators.about(batch.asked_items)
    return annotators


class PairSites:
    """The verbs of ``TwoCoin`` and of any model with its verbs."""

    def __init__(self, annotators: PairAnnotators, owners: Tensor | None = None) -> None:
        self._annotators = annotators
        self._together = None if owners is None else components_together(owners)

    def check(self, data: CrowdData) -> None:
        if isinstance(self._annotators, GradedAnswers):
            raise ValueError(
                "GradedAnswers grade what a pair looks like, which AnsweredPartition knows: build "
                "this model with GradedPairs(data.num_workers, len(data.grade_ids))"
            )
        if data.placements is not None:
            raise ValueError(
                f"the data are pages sorted into groups, but {type(self._annotators).__name__} is "
                "of answers about pairs: build the model with SortedPages(data.num_workers), or "
                "pass data.as_pairs()"
            )
        if isinstance(self._annotators, SupportsCheck):
            self._annotators.check(data)
        elif len(data.grade_ids):
            raise ValueError(
                f"the labels are grades, but {type(self._annotators).__name__} is of answers yes "
                "and no: build the model with GradedPairs(data.num_workers, len(data.grade_ids))"
            )

    def in_batch(self, batch: Batch) -> bool:
        return batch.num_pairs > 0

    def sample(self, z: Tensor, rates: Rates, batch: Batch) -> None:
        with FullPlate("pairs", batch.num_pairs, batch.pair_weight):
            same = pyro.sample("same", self._same(z, batch))
            answer = told_of_items(self._annotators, batch).answer(same, rates, batch.worker)
            pyro.sample("label", answer, obs=batch.label)

    def sample_guide(self, z: Tensor, rates: Rates, batch: Batch) -> None:
        with FullPlate("pairs", batch.num_pairs, batch.pair_weight):
            pyro.sample("same", self._same(z, batch))

    def _same(self, z: Tensor, batch: Batch) -> SameCluster:
        return SameCluster(z, batch.left, batch.right, batch.num_paired, self._together)

    def coupling(
        self, rates: Rates, batch: Batch, dtype: torch.dtype, weighted: bool = False
    ) -> PairCoupling | SessionCoupling:
        annotators = told_of_items(self._annotators, batch)
        assert batch.label is not None  # only a simulation has none
        ratio = annotators.log_likelihood_ratio(rates, batch.worker, batch.label)
        weight = (ratio * batch.pair_weight if weighted else ratio).to(dtype)
        ends = batch.left, batch.right
        return PairCoupling(*ends, weight, batch.num_paired, self._together)

    def merge_gain(self, rates: Rates, assignments: Tensor, batch: Batch) -> Tensor:
        annotators = told_of_items(self._annotators, batch)
        assert batch.label is not None  # only a simulation has none
        weight = annotators.log_likelihood_ratio(rates, batch.worker, batch.label)
        return answer_gain(assignments, batch.left, batch.right, weight)

    def owners_evidence(self, rates: Rates, assignments: Tensor, batch: Batch) -> PairOwners:
        return PairOwners(self.merge_gain(rates, assignments, batch))

    def summarize(self, sites: WorkerSites, interval: float) -> WorkerSummary:
        return summarize_pair_workers(self._annotators, sites, interval)

    def first_points(self, rate: float) -> dict[str, Tensor]:
        return {
            name: torch.full_like(prior.natural_parameters[:, 0], rate)
            if isinstance(prior.family, Beta)
            else torch.from_numpy(prior.family.summary(prior.natural_parameters, 0.9).mean)
            for name, prior in self._annotators.priors().items()
        }


class SessionSites(PairSites):
    """The verbs of ``LapsingWorkers``: as of pairs, and whether a worker looks at a page."""

    def __init__(self, annotators: LapsingWorkers, owners: Tensor | None = None) -> None:
        super().__init__(annotators, owners)
        self._lapsing = annotators

    def check(self, data: CrowdData) -> None:
        PairSites(self._lapsing.attentive).check(data)
        if data.answers is not None and data.answers.page is None:
            raise ValueError(
                "lapses are of pages, and the answers have none: give the pairs a column 'page', "
                "the task or session of every answer, or build the model with annotators that do "
                "not lapse"
            )

    def sample(self, z: Tensor, rates: Rates, batch: Batch) -> None:
        sessions = batch.sessions
        if sessions is None:
            super().sample(z, rates, batch)
            return
        habits = rates["attention"].index_select(0, sessions.worker)
        with FullPlate("sessions", len(sessions.worker), batch.pair_scale):
            state = pyro.sample("attentive", Assignment(habits))
        with FullPlate("pairs", batch.num_pairs, batch.pair_weight):
            same = pyro.sample("same", self._same(z, batch))
            answer = self._lapsing.answer_on(sessions, state[:, 0], same, rates)
            pyro.sample("label", answer, obs=batch.label)

    def sample_guide(self, z: Tensor, rates: Rates, batch: Batch) -> None:
        coupling = self._of_sessions(rates, batch, z.dtype)
        if coupling is not None:
            log_odds = coupling.log_odds(z)
            logits = torch.stack([log_odds, torch.zeros_like(log_odds)], -1)
            with FullPlate("sessions", len(logits), batch.pair_scale):
                pyro.sample("attentive", ConjugateAtMean(Categorical(2), logits))
        super().sample_guide(z, rates, batch)

    def coupling(
        self, rates: Rates, batch: Batch, dtype: torch.dtype, weighted: bool = False
    ) -> PairCoupling | SessionCoupling:
        found = self._of_sessions(rates, batch, dtype, weighted)
        return super().coupling(rates, batch, dtype, weighted) if found is None else found

    def _of_sessions(
        self, rates: Rates, batch: Batch, dtype: torch.dtype, weighted: bool = False
    ) -> SessionCoupling | None:
        sessions = batch.sessions
        if sessions is None:
            return None
        parts = rates, batch, sessions, dtype, weighted, self._together
        return SessionCoupling(self._lapsing, *parts)

    def merge_gain(self, rates: Rates, assignments: Tensor, batch: Batch) -> Tensor:
        coupling = self._of_sessions(rates, batch, assignments.dtype)
        if coupling is None:
            return super().merge_gain(rates, assignments, batch)
        weight = coupling.heard(assignments)
        return answer_gain(assignments, batch.left, batch.right, weight)

    def summarize(self, sites: WorkerSites, interval: float) -> WorkerSummary:
        found = summarize_pair_workers(self._lapsing.attentive, sites, interval)
        attention = {"attention": sites["attention"].summary(interval)}
        return WorkerSummary(found.rates | attention, *found[1:])


def _pages(batch: Batch) -> BatchPages:
    """The pages of a batch that has some."""
    if batch.pages is None:
        raise ValueError(f"{batch} has no sorted pages")
    return batch.pages


class PageSites:
    """The verbs of ``SortedPages``."""

    def __init__(self, annotators: SortedPages, owners: Tensor | None = None) -> None:
        self._annotators = annotators
        self._owners = owners

    def _clusters(self, z: Tensor) -> Tensor:
        """Assignments to clusters, from those to components."""
        return z if self._owners is None else z @ self._owners.to(z.dtype)

    def check(self, data: CrowdData) -> None:
        if data.placements is None:
            raise ValueError(
                "SortedPages are of pages sorted into groups, but the data are answers about "
                "pairs: pass data.as_placements() where these are sorted pages, else build the "
                "model with TwoCoin(data.num_workers)"
            )

    def in_batch(self, batch: Batch) -> bool:
        return batch.pages is not None

    def sample(self, z: Tensor, rates: Rates, batch: Batch) -> None:
        z, pages, annotators = self._clusters(z), _pages(batch), self._annotators
        habits = rates["habits"].index_select(0, pages.worker)
        with FullPlate("pages", pages.num_pages, pages.weight):
            state = pyro.sample("page_state", Assignment(habits))
            like = state, pages.num_groups, z.shape[-1], annotators.log_overlap
            homes = pyro.sample("home", PageHomes(*like, lambda: pages.counts(z).sum(-1) > 0))
        with FullPlate("placements", pages.num_placements, pages.placement_weight):
            where = pages.row, pages.page, pages.group
            at_home = pyro.sample("at_home", AtHome(z, state, homes, *where))
            accuracy = rates["accuracy"].index_select(0, pages.worker.index_select(0, pages.page))
            attentive = state[:, : homes.shape[1]].index_select(0, pages.page)
            num_groups = pages.num_groups.index_select(0, pages.page)

            def home_of_item() -> Tensor:
                own = z[pages.row].to(homes.dtype).unsqueeze(1)
                return (own @ mean_homes(state, homes)[pages.page]).squeeze(1)

            placement = GroupPlacement(at_home, accuracy, attentive, num_groups, home_of_item)
            pyro.sample("group", placement, obs=pages.group)

    def sample_guide(self, z: Tensor, rates: Rates, batch: Batch) -> None:
        z, pages = self._clusters(z), _pages(batch)
        posterior = self._annotators.posterior(dict(rates), z, pages)
        with FullPlate("pages", pages.num_pages, pages.weight):
            q_state = ConjugateAtMean(Categorical(len(PAGE_STATES)), posterior.state_logits)
            state = pyro.sample("page_state", q_state)
            homes = pyro.sample("home", HomesAtMean(posterior.homes, state))
        with FullPlate("placements", pages.num_placements, pages.placement_weight):
            where = pages.row, pages.page, pages.group
            pyro.sample("at_home", AtHome(z, state, homes, *where))

    def coupling(
        self, rates: Rates, batch: Batch, dtype: torch.dtype, weighted: bool = False
    ) -> PageCoupling:
        of_pages = dict(rates), _pages(batch), batch.num_paired
        return PageCoupling(self._annotators, *of_pages, weighted, self._owners)

    def merge_gain(self, rates: Rates, assignments: Tensor, batch: Batch) -> Tensor:
        return self.coupling(rates, batch, assignments.dtype).merge_gain(assignments)

    def owners_evidence(self, rates: Rates, assignments: Tensor, batch: Batch) -> PageOwners:
        return PageOwners(self._annotators, dict(rates), _pages(batch), assignments)

    def summarize(self, sites: WorkerSites, interval: float) -> WorkerSummary:
        accuracy, pages = sites["accuracy"], sites["habits"].summary(interval)
        # Of a Dirichlet every share alone is a Beta.
        shares = {
            name: PosteriorSummary(*(part[:, state] for part in pages))
            for state, name in enumerate(PAGE_STATES)
            if name != "sorted"
        }
        right, wrong = accuracy.mean().unbind(-1)
        direction = right.new_tensor([1.0, -1.0]).expand(len(right), 2)
        variance = accuracy.variance(direction)
        weight, deviation = (part.numpy(force=True) for part in (right - wrong, variance.sqrt()))
        return WorkerSummary({"accuracy": accuracy.summary(interval)} | shares, weight, deviation)

    def first_points(self, rate: float) -> dict[str, Tensor]:
        priors = self._annotators.priors()
        pages = priors["habits"].family.standard(priors["habits"].natural_parameters).concentration
        return {
            "accuracy": torch.full_like(pages[:, 0], rate),
            "habits": pages / pages.sum(-1, keepdim=True),
        }
