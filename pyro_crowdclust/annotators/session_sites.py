"""The sites of workers who lapse: those of pairs, and whether a worker looks at a page."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import pyro
import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.annotators.pair_messages import PairCoupling, answer_gain
from pyro_crowdclust.annotators.pair_sites import PairSites
from pyro_crowdclust.annotators.pair_summaries import summarize_pair_workers
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.pair_answers import Sessions
from pyro_crowdclust.distributions.at_mean import ConjugateAtMean
from pyro_crowdclust.distributions.likelihoods import Assignment
from pyro_crowdclust.distributions.pairs import agreement
from pyro_crowdclust.distributions.plates import FullPlate
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.families import Categorical
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import AnswerCoupling, Rates, SupportsLapses, WorkerSites


class SessionCoupling:
    """Messages ``w_ij q(u_p = 1)`` between the ends of answered pairs, on pages p that may lapse.

    q(u) is at its optimum given the assignments. It is used in the last round only: before, the
    answers of a page would be ignored until they agreed with features that may still be vague.

    Parameters
    ----------
    annotators
        The workers.
    rates
        E[t] of their sites.
    batch
        The answers.
    sessions
        The page and worker of every answer.
    dtype
        Of the messages.
    weighted
        Whether messages are multiplied by the weights of the answers.
    together
        B of ``Ownership``; by default the identity.
    """

    def __init__(
        self,
        annotators: SupportsLapses,
        rates: Mapping[str, Float[Tensor, "worker size"]],
        batch: Batch,
        sessions: Sessions,
        dtype: torch.dtype,
        weighted: bool = False,
        together: Float[Tensor, "cluster cluster"] | None = None,
    ) -> None:
        self.num_items = batch.num_paired
        self._ends, self._together = (batch.left, batch.right), together
        self._annotators, self._rates, self._dtype = annotators, rates, dtype
        self._sessions, self._label = sessions, batch.needed_label
        ratio = annotators.log_likelihood_ratio(rates, batch.worker, self._label)
        self._ratio = ratio * batch.pair_weight if weighted else ratio

    @torch.no_grad()
    def log_odds(self, assignments: Float[Tensor, "item cluster"]) -> Float[Tensor, " session"]:
        """``log q(u = 1) - log q(u = 0)`` of every page of a worker, given q(z)."""
        paired = assignments[: self.num_items].to(self._ratio.dtype)
        same = agreement(paired, *self._ends, self._together)
        return self._annotators.log_odds(self._sessions, self._label, self._rates, same)

    def messages(self, assignments: Float[Tensor, "item cluster"], last: bool = False) -> Tensor:
        """The sum of the messages to every paired item, shape ``[num_items, K]``."""
        coupling = self._coupling(self.weights(assignments)) if last else self._trusting
        return coupling.messages(assignments, last)

    @cached_property
    def _trusting(self) -> PairCoupling:
        return self._coupling(self._ratio)

    def potential(self, assignments: Float[Tensor, "item cluster"]) -> Float[Tensor, ""]:
        """``sum_ij w_ij q(u) <q_i, q_j>`` at the optimum of q(u), where its gradient is exact."""
        return self._coupling(self.weights(assignments)).potential(assignments)

    def weights(self, assignments: Float[Tensor, "item cluster"]) -> Float[Tensor, " pair"]:
        """``w q(u = 1)`` of every answer."""
        attention = self.log_odds(assignments).sigmoid()
        return self._ratio * attention.index_select(0, self._sessions.of_answer)

    def _coupling(self, weight: Float[Tensor, " pair"]) -> PairCoupling:
        return PairCoupling(*self._ends, weight.to(self._dtype), self.num_items, self._together)


class SessionSites(PairSites):
    """The verbs of the sites of ``LapsingWorkers``."""

    def __init__(self, annotators: SupportsLapses, owners: Tensor | None = None) -> None:
        super().__init__(annotators, owners)
        self._lapsing = annotators

    def check(self, data: CrowdData) -> None:
        PairSites(self._lapsing.attentive).check(data)
        if data.answers is not None and data.answers.page is None:
            raise ValueError(
                "workers lapse on pages, but the answers have none: give the pairs a column "
                "'page', the task or session of every answer, or build the model with annotators "
                "that do not lapse"
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
    ) -> AnswerCoupling:
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
        weight = coupling.weights(assignments)
        return answer_gain(assignments, batch.left, batch.right, weight)

    def first_points(self, rate: float) -> dict[str, Tensor]:
        raise ValueError(
            "a guide of points cannot infer on which pages workers lapse: use MessagePassingGuide, "
            "or build the model with annotators that do not lapse"
        )

    def summarize(self, sites: WorkerSites, interval: float) -> WorkerSummary:
        found = summarize_pair_workers(self._lapsing.attentive, sites, interval)
        attention = {"attention": sites["attention"].summary(interval)}
        return WorkerSummary(found.rates | attention, *found[1:])
