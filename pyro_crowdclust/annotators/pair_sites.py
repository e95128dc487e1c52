"""The sites of answers about pairs, by workers who always look or who lapse."""

from __future__ import annotations

import pyro
import torch
from torch import Tensor

from pyro_crowdclust.annotators.answer_sites import Rates, WorkerSites
from pyro_crowdclust.annotators.graded import GradedAnswers
from pyro_crowdclust.annotators.lapsing import LapsingWorkers, SessionCoupling
from pyro_crowdclust.annotators.pair_messages import PairCoupling, answer_gain
from pyro_crowdclust.annotators.pair_owners import PairOwners
from pyro_crowdclust.annotators.two_coin import summarize_pair_workers
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.distributions.at_mean import ConjugateAtMean
from pyro_crowdclust.distributions.likelihoods import Assignment
from pyro_crowdclust.distributions.pairs import SameCluster, components_together
from pyro_crowdclust.distributions.plates import FullPlate
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.families import Beta, Categorical
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import PairAnnotators, SupportsCheck, SupportsItems


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
        ratio = annotators.log_likelihood_ratio(rates, batch.worker, batch.needed_label)
        weight = (ratio * batch.pair_weight if weighted else ratio).to(dtype)
        ends = batch.left, batch.right
        return PairCoupling(*ends, weight, batch.num_paired, self._together)

    def merge_gain(self, rates: Rates, assignments: Tensor, batch: Batch) -> Tensor:
        annotators = told_of_items(self._annotators, batch)
        weight = annotators.log_likelihood_ratio(rates, batch.worker, batch.needed_label)
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

    def first_points(self, rate: float) -> dict[str, Tensor]:
        raise ValueError(
            "points do not know on which pages workers lapse: use MessagePassingGuide, or "
            "build the model with annotators that do not lapse"
        )

    def summarize(self, sites: WorkerSites, interval: float) -> WorkerSummary:
        found = summarize_pair_workers(self._lapsing.attentive, sites, interval)
        attention = {"attention": sites["attention"].summary(interval)}
        return WorkerSummary(found.rates | attention, *found[1:])
