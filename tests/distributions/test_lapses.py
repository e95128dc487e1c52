"""Answers of workers who may not look, against integrals, scipy and frequencies."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import torch

from pyro_crowdclust.data.pair_answers import Outcomes
from pyro_crowdclust.distributions import TwoCoinAnswer
from pyro_crowdclust.distributions.lapses import (
    AnswerOfUnknownAttention,
    LapsingAnswer,
    log_attention,
    log_without_looking,
    page_counts,
    share_without_looking,
)

YES_NO = Outcomes(2, 2)
RATES = torch.tensor([[0.8, 0.2], [0.6, 0.4]], dtype=torch.float64).log()


def looked(same: torch.Tensor, worker: torch.Tensor) -> TwoCoinAnswer:
    return TwoCoinAnswer(same, RATES, RATES, worker)


def test_answers_without_looking_have_their_shares_integrated_out():
    page = torch.tensor([0, 0, 0, 1, 1])
    yes = torch.tensor([1, 1, 0, 0, 0])
    found = log_without_looking(yes, page, 2, 2).exp()
    for number, power in enumerate([(2, 1), (0, 2)]):
        expected, _ = scipy.integrate.quad(
            lambda c, power=power: c ** power[0] * (1 - c) ** power[1], 0, 1
        )
        np.testing.assert_allclose(found[number], expected, rtol=1e-8)


def test_the_same_of_grades():
    outcome = torch.tensor([0, 3, 3, 1, 4, 3])
    counts = torch.bincount(outcome, minlength=5).numpy()
    found = log_without_looking(outcome, torch.zeros(6, dtype=torch.int64), 1, 5)
    # scipy counts the orders in which these can be given, too.
    orders = scipy.stats.multinomial.logpmf(counts, 6, np.full(5, 0.2)) - 6 * np.log(0.2)
    expected = scipy.stats.dirichlet_multinomial.logpmf(counts, np.ones(5), 6) - orders
    np.testing.assert_allclose(found[0], expected, rtol=1e-8)


def test_the_share_of_an_answer_is_what_it_adds_to_its_page():
    page = torch.tensor([0, 0, 0, 1, 1])
    outcome = torch.tensor([2, 2, 0, 1, 1])
    counts = page_counts(outcome, page, 3, 3)[[0, 1, 2]]
    asked = torch.tensor([2, 0, 1])
    found = share_without_looking(counts, asked).log()
    more = torch.cat([outcome, asked]), torch.cat([page, torch.arange(3)])
    change = log_without_looking(*more, 3, 3) - log_without_looking(outcome, page, 3, 3)
    torch.testing.assert_close(found, change)


def test_attention_is_as_likely_as_bayes_rule_says():
    page, yes = torch.tensor([0, 0, 1]), torch.tensor([1, 0, 1])
    prior = torch.tensor([0.9, 0.6, 0.3], dtype=torch.float64)
    attentive = torch.tensor([0.8, 0.5, 0.1], dtype=torch.float64)
    at_random = log_without_looking(yes, page, 3, 2)
    found = log_attention(prior.logit(), attentive.log(), at_random, page).sigmoid()
    # One of each has B(2, 2) = 1 / 6; of the last page nothing is known.
    looks = prior * torch.tensor([0.4, 0.1, 1.0])
    lapses = (1 - prior) * torch.tensor([1 / 6, 1 / 2, 1.0])
    torch.testing.assert_close(found, looks / (looks + lapses))


def test_a_page_is_answered_with_attention_or_without():
    page, worker = torch.tensor([0, 0, 1, 1, 1]), torch.tensor([0, 0, 1, 1, 1])
    same = torch.tensor([1.0, 0.3, 0.0, 1.0, 0.7], dtype=torch.float64)
    label = torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0], dtype=torch.float64)
    attentive = looked(same, worker)

    def log_prob(attention: list[float]) -> torch.Tensor:
        states = torch.tensor(attention, dtype=torch.float64)
        return LapsingAnswer(attentive, states, page, YES_NO).log_prob(label)

    torch.testing.assert_close(log_prob([1.0, 1.0]), attentive.log_prob(label))
    together = torch.zeros(2, dtype=torch.float64).index_add(0, page, log_prob([0.0, 0.0]))
    torch.testing.assert_close(together, log_without_looking(label.long(), page, 2, 2))
    mixed = 0.25 * log_prob([1.0, 1.0]) + 0.75 * log_prob([0.0, 0.0])
    torch.testing.assert_close(log_prob([0.25, 0.25]), mixed)


def test_draws_have_these_frequencies():
    torch.manual_seed(0)
    pages = 20_000
    page = torch.arange(pages).repeat(2)
    attentive = looked(torch.ones(2 * pages, dtype=torch.float64), torch.zeros_like(page))
    share = torch.full((pages,), 0.75, dtype=torch.float64)
    first, second = LapsingAnswer(attentive, share, page, YES_NO).sample().view(2, -1)
    # Without attention both are yes in a third of the pages: they have one share.
    expected = 0.75 * 0.8**2 + 0.25 / 3
    assert abs(float((first * second).mean()) - expected) < 4 * (expected / pages) ** 0.5


@pytest.mark.parametrize("outcomes", [YES_NO, Outcomes(3, 4)], ids=["yes and no", "grades"])
def test_draws_are_outcomes(outcomes):
    torch.manual_seed(1)
    page = torch.zeros(500, dtype=torch.int64)
    attentive = looked(torch.ones(500, dtype=torch.float64), page)
    none = torch.zeros(1, dtype=torch.float64)
    drawn = LapsingAnswer(attentive, none, page, outcomes).sample()
    assert {*outcomes.places(drawn).tolist()} == {*range(outcomes.num_outcomes)}


def test_of_an_unknown_page_answers_are_a_mixture():
    worker = torch.tensor([0, 1])
    attentive = looked(torch.tensor([1.0, 0.0], dtype=torch.float64), worker)
    attention = torch.tensor([[0.9, 0.1], [0.5, 0.5]], dtype=torch.float64).log()
    answer = AnswerOfUnknownAttention(attentive, attention, YES_NO)
    yes, no = (answer.log_prob(torch.full((2,), said)).exp() for said in (1.0, 0.0))
    torch.testing.assert_close(yes + no, torch.ones(2, dtype=torch.float64))
    torch.testing.assert_close(
        yes, torch.tensor([0.9 * 0.8 + 0.1 / 2, 0.5 * 0.4 + 0.5 / 2], dtype=torch.float64)
    )
    torch.manual_seed(0)
    drawn = torch.stack([answer.sample() for _ in range(4000)]).mean(0)
    torch.testing.assert_close(drawn, yes, atol=0.04, rtol=0)
