"""Likelihood of answers by workers who may have answered a page without looking."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.distributions import constraints

from pyro_crowdclust.data.pair_answers import Outcomes
from pyro_crowdclust.distributions.statistics import StatisticValued


def page_counts(
    outcome: Int[Tensor, " answer"], page: Int[Tensor, " answer"], num_pages: int, num_outcomes: int
) -> Float[Tensor, "page outcome"]:
    """``n_c``: number of answers c on every page.

    Examples
    --------
    >>> page_counts(torch.tensor([1, 1, 0]), torch.tensor([0, 1, 1]), 2, 2).tolist()
    [[0.0, 1.0], [1.0, 1.0]]
    """
    counts = torch.zeros(num_pages, num_outcomes, dtype=torch.float64, device=page.device)
    return counts.index_put_((page, outcome), counts.new_ones(len(page)), accumulate=True)


def log_without_looking(
    outcome: Int[Tensor, " answer"], page: Int[Tensor, " answer"], num_pages: int, num_outcomes: int
) -> Float[Tensor, " page"]:
    """``log B(1 + n_1, ..., 1 + n_C) - log B(1, ..., 1)`` of pages with n_c answers c.

    Likelihood of answers given without looking; the shares of the C possible answers have a uniform
    prior and belong to the page.

    Examples
    --------
    >>> outcome, page = torch.tensor([1, 1, 0]), torch.tensor([0, 1, 1])
    >>> log_without_looking(outcome, page, 2, 2).exp().round(decimals=4)
    tensor([0.5000, 0.1667], dtype=torch.float64)
    """
    alpha = 1 + page_counts(outcome, page, num_pages, num_outcomes)
    uniform = alpha.new_tensor(float(num_outcomes)).lgamma()
    return alpha.lgamma().sum(-1) - alpha.sum(-1).lgamma() + uniform


def share_without_looking(
    counts: Float[Tensor, "answer outcome"], outcome: Int[Tensor, " answer"]
) -> Float[Tensor, " answer"]:
    """``(1 + n_L) / (C + n)``: probability of L without looking, given others on its page.

    Parameters
    ----------
    counts
        n_c of the other answers on the page of every answer.
    outcome
        L.

    Examples
    --------
    >>> share_without_looking(torch.tensor([[0.0, 2.0], [0.0, 0.0]]), torch.tensor([1, 1])).tolist()
    [0.75, 0.5]
    """
    alpha = 1 + counts
    return alpha.gather(-1, outcome.unsqueeze(-1)).squeeze(-1) / alpha.sum(-1)


def log_attention(
    prior: Float[Tensor, " page"],
    attentive: Float[Tensor, " answer"],
    at_random: Float[Tensor, " page"],
    page: Int[Tensor, " answer"],
) -> Float[Tensor, " page"]:
    """``log q(u = 1) - log q(u = 0) = r_p + sum_{a in p} log p(L_a | u = 1) - log p(L_p | u = 0)``.

    Parameters
    ----------
    prior
        r: the prior log odds that the worker looked at the page.
    attentive
        ``log p(L | u = 1)`` of every answer.
    at_random
        ``log p(L_p | u = 0)`` of every page, see ``log_without_looking``.
    page
        The page of every answer.

    Examples
    --------
    >>> looked = torch.tensor([0.9, 0.9, 0.1]).log()
    >>> page = torch.tensor([0, 0, 1])
    >>> at_random = log_without_looking(torch.tensor([1, 1, 1]), page, 2, 2).float()
    >>> log_attention(torch.zeros(2), looked, at_random, page).sigmoid().round(decimals=2)
    tensor([0.7100, 0.1700])
    """
    return (prior - at_random).index_add(0, page, attentive)


class LapsingAnswer(StatisticValued):
    """``log p(L_p | s, u) = u sum_a log p(L_a | s_a) + (1 - u) log p(L_p)`` of a page's answers.

    u is 1 for a page with attention (or its probability, which gives the expectation).
    ``log p(L_p)`` is that of ``log_without_looking``, divided equally among the answers.

    Parameters
    ----------
    attentive
        Distribution of the answers of workers who look.
    attention
        u of every page, ``[page]``.
    page
        The page of every answer.
    outcomes
        The possible answers.
    """

    has_rsample = False
    support: constraints.Constraint = constraints.real

    def __init__(
        self,
        attentive: Any,
        attention: Float[Tensor, " page"],
        page: Int[Tensor, " answer"],
        outcomes: Outcomes,
    ) -> None:
        self.attentive, self.attention = attentive, attention
        self.page, self.outcomes = page, outcomes
        super().__init__(attentive.batch_shape, torch.Size())

    def sample(self, sample_shape: Any = ()) -> Float[Tensor, " answer"]:
        looked = self.attentive.sample(sample_shape)
        even = self.attention.new_ones(len(self.attention), self.outcomes.num_outcomes)
        shares = torch.distributions.Dirichlet(even).sample()[self.page]
        not_looked = self.outcomes.labels(torch.multinomial(shares, 1).squeeze(1)).to(looked)
        return torch.where(torch.bernoulli(self.attention)[self.page].bool(), looked, not_looked)

    def log_prob(self, value: Float[Tensor, " answer"]) -> Float[Tensor, " answer"]:
        looked = self.attentive.log_prob(value)
        sizes = len(self.attention), self.outcomes.num_outcomes
        together = log_without_looking(self.outcomes.places(value), self.page, *sizes)
        count = torch.bincount(self.page, minlength=len(together)).clamp_min(1)
        not_looked = (together / count)[self.page].to(looked)
        return torch.lerp(not_looked, looked, self.attention.to(looked.dtype)[self.page])


class AnswerOfUnknownAttention(StatisticValued):
    """A single answer, its page summed out: ``log (a p(L | s) + (1 - a) / C)``.

    It is not linear in the statistics, so it takes values of the rates, not expectations.

    Parameters
    ----------
    attentive
        Distribution of the answers of workers who look.
    attention
        t(a) of the worker of every answer, ``[answer, 2]``.
    outcomes
        The possible answers.
    """

    has_rsample = False
    support: constraints.Constraint = constraints.real

    def __init__(
        self,
        attentive: Any,
        attention: Float[Tensor, "answer 2"],
        outcomes: Outcomes,
    ) -> None:
        self.attentive, self.attention, self.outcomes = attentive, attention, outcomes
        super().__init__(attentive.batch_shape, torch.Size())

    def sample(self, sample_shape: Any = ()) -> Float[Tensor, " answer"]:
        looked = self.attentive.sample(sample_shape)
        place = torch.randint(self.outcomes.num_outcomes, looked.shape, device=looked.device)
        not_looked = self.outcomes.labels(place).to(looked)
        return torch.where(torch.bernoulli(self.attention[:, 0].exp()).bool(), looked, not_looked)

    def log_prob(self, value: Float[Tensor, " answer"]) -> Float[Tensor, " answer"]:
        looks, lapses = self.attention.unbind(-1)
        at_random = lapses - math.log(self.outcomes.num_outcomes)
        return torch.logaddexp(looks + self.attentive.log_prob(value), at_random)
