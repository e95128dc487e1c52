"""Workers who answer some pages of pairs without looking.

    a_m ~ Beta(9, 1),   u_p | m ~ Bern(a_m)      does worker m look at page p?
    L_ij^m | u_p = 1                             two coins, or grades: any annotators of pairs
    L_ij^m | u_p = 0 ~ Cat(c_p),   c_p uniform   answers without looking

Without page states, a burst of careless answers looks like a worker who errs a little everywhere:
all of the worker's answers then count less, and those of the burst too much. Every site is
conjugate, and given q(z) and the rates the state of a page has a closed form, with c_p integrated
out,

    log odds of u_p = E[log a_m - log (1 - a_m)]
                      + sum_{a in p} E[log p(L_a | s_a)] - log B(1 + n) + log B(1)

with s_a = P(same) of a pair and n the counts of the answers on the page. A message between the ends
of a pair has the weight ``w q(u_p = 1)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators.more_workers import with_workers
from pyro_crowdclust.annotators.session_sites import SessionSites
from pyro_crowdclust.annotators.two_coin import TRUSTED
from pyro_crowdclust.data.pair_answers import Outcomes, Sessions
from pyro_crowdclust.distributions.lapses import (
    AnswerOfUnknownAttention,
    LapsingAnswer,
    log_attention,
    log_without_looking,
)
from pyro_crowdclust.distributions.priors import ConjugatePrior
from pyro_crowdclust.families import Beta
from pyro_crowdclust.files.parts import described, rebuilt
from pyro_crowdclust.protocols import (
    PairAnnotators,
    SupportsItems,
    SupportsOutcomes,
    SupportsWithTrust,
)


@described
class LapsingWorkers(nn.Module):
    """Workers who answer some of their pages of pairs without looking.

    The answers need pages: tasks, sessions or days. A page that several workers were given has a
    state for each of them. In minibatches (or several processes), a page that is split has a state
    for each part.

    Parameters
    ----------
    attentive
        The workers when they look: ``TwoCoin``, ``GradedPairs`` or user-defined annotators.
    attention
        Pseudo-counts of pages with and without attention.

    Raises
    ------
    ValueError
        If the model of the workers needs the items that answers are about (``SupportsItems``).

    Examples
    --------
    >>> from pyro_crowdclust.annotators import TwoCoin
    >>> sorted(LapsingWorkers(TwoCoin(3)).priors())
    ['attention', 'sensitivity', 'specificity']
    """

    def __init__(
        self, attentive: PairAnnotators, attention: tuple[float, float] = (9.0, 1.0)
    ) -> None:
        super().__init__()
        if isinstance(attentive, SupportsItems):
            raise ValueError(
                f"{type(attentive).__name__} needs the items that answers are about, which "
                "LapsingWorkers does not pass on: use it without LapsingWorkers"
            )
        self._attentive, self.num_workers = attentive, attentive.num_workers
        self.attention = attention
        yes_no = Outcomes(2, 2)
        self.outcomes = attentive.outcomes if isinstance(attentive, SupportsOutcomes) else yes_no
        family = Beta()
        eta = family.natural(*torch.tensor(attention, dtype=torch.float64))
        own = {"attention": ConjugatePrior(family, eta, self.num_workers, dims=("worker",))}
        # Under uniform rates, answers without looking would explain every page better at first, and
        # no rate would ever be learned.
        trusted = (
            attentive.with_trust(TRUSTED).priors()
            if isinstance(attentive, SupportsWithTrust)
            else {}
        )
        for name, prior in attentive.priors().items():
            start = trusted[name].natural_parameters if name in trusted else None
            parts = prior.family, prior.natural_parameters, prior.plate_size, prior.dims, start
            own[name] = ConjugatePrior(*parts)
        self._priors: Any = nn.ModuleDict(own)

    @property
    def attentive(self) -> PairAnnotators:
        """The workers when they look."""
        return self._attentive

    def sites(self, owners: Float[Tensor, "component cluster"] | None = None) -> SessionSites:
        """The verbs of the sites; ``owners`` as in ``sites_of``."""
        return SessionSites(self, owners)

    def with_trust(self, trust: tuple[float, float]) -> LapsingWorkers:
        """The same workers with these pseudo-counts of right and wrong answers."""
        attentive = self.attentive
        if isinstance(attentive, SupportsWithTrust):
            attentive = attentive.with_trust(trust)
        return LapsingWorkers(attentive, self.attention)

    def with_workers(self, rows: Int[Tensor, " before"], number: int) -> LapsingWorkers | None:
        """The same for ``number`` workers, the earlier ones in ``rows``."""
        attentive = with_workers(self.attentive, rows, number)
        return None if attentive is None else rebuilt(self, attentive=attentive)

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites of the workers, by name."""
        return dict(self._priors.items())

    def answer(
        self,
        same: Float[Tensor, " pair"],
        rates: Mapping[str, Float[Tensor, "worker size"]],
        worker: Int[Tensor, " pair"],
    ) -> AnswerOfUnknownAttention:
        """Likelihood of answers on pages whose states are unknown, given the rates."""
        attentive = self.attentive.answer(same, rates, worker)
        return AnswerOfUnknownAttention(attentive, rates["attention"][worker], self.outcomes)

    def answer_on(
        self,
        sessions: Sessions,
        attention: Float[Tensor, " session"],
        same: Float[Tensor, " pair"],
        rates: Mapping[str, Float[Tensor, "worker size"]],
    ) -> LapsingAnswer:
        """Likelihood of the answers, linear in u, in ``same`` and in the statistics of the rates.

        ``attention`` is u of every page of a worker, or its probability.
        """
        worker = sessions.worker.index_select(0, sessions.of_answer)
        attentive = self.attentive.answer(same, rates, worker)
        return LapsingAnswer(attentive, attention, sessions.of_answer, self.outcomes)

    def log_likelihood_ratio(
        self,
        rates: Mapping[str, Float[Tensor, "worker size"]],
        worker: Int[Tensor, " pair"],
        label: Float[Tensor, " pair"],
    ) -> Float[Tensor, " pair"]:
        """``w = log p(L | same) - log p(L | different)`` of workers who look; eq. 14."""
        return self.attentive.log_likelihood_ratio(rates, worker, label)

    def log_odds(
        self,
        sessions: Sessions,
        label: Float[Tensor, " pair"],
        rates: Mapping[str, Float[Tensor, "worker size"]],
        same: Float[Tensor, " pair"],
    ) -> Float[Tensor, " session"]:
        """``log q(u = 1) - log q(u = 0)`` of every page, given s = P(same) of its pairs.

        Parameters
        ----------
        sessions
            The pages of workers that the answers lie on.
        label
            The answers.
        rates
            t of the workers' sites, or its expectations.
        same
            s of every answer.
        """
        worker, page = sessions.worker, sessions.of_answer
        looks, lapses = rates["attention"].index_select(0, worker).unbind(-1)
        attentive = self.attentive.answer(same, rates, worker.index_select(0, page))
        pages = page, len(worker), self.outcomes.num_outcomes
        at_random = log_without_looking(self.outcomes.places(label), *pages)
        return log_attention(looks - lapses, attentive.log_prob(label), at_random, page)
