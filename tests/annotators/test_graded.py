"""Graded answers: a likelihood, and what can be read of a worker."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust.annotators import GradedAnswers
from pyro_crowdclust.distributions import ConjugatePosterior

from .random_rates import drawn_rates

LABELS = torch.tensor([0.0, 1 / 3, 2 / 3, 1.0, torch.nan], dtype=torch.float64)


def test_answers_are_linear_in_looks_and_sum_to_one():
    torch.manual_seed(0)
    annotators = GradedAnswers(3, num_grades=4)
    rates = drawn_rates(annotators)
    worker = torch.tensor([0, 1, 2, 1])
    looks = torch.rand(2, 4, 4, dtype=torch.float64).softmax(-1)
    first, second = (annotators.answer(look, rates, worker) for look in looks)
    between = annotators.answer(0.3 * looks[0] + 0.7 * looks[1], rates, worker)
    label = LABELS[[0, 2, 4, 3]]
    mixed = 0.3 * first.log_prob(label) + 0.7 * second.log_prob(label)
    torch.testing.assert_close(between.log_prob(label), mixed)
    sure = annotators.answer(torch.eye(4, dtype=torch.float64), rates, worker)
    total = sum(sure.log_prob(label.expand(4)).exp() for label in LABELS)
    torch.testing.assert_close(total, torch.ones(4, dtype=torch.float64))


def test_draws_have_the_probabilities():
    torch.manual_seed(0)
    annotators = GradedAnswers(1, num_grades=4)
    look = torch.tensor([[0.0, 1.0, 0.0, 0.0]], dtype=torch.float64).expand(20_000, 4)
    answer = annotators.answer(look, drawn_rates(annotators), torch.zeros(20_000, dtype=torch.long))
    drawn = answer.sample()
    for label in LABELS:
        share = drawn.isnan() if label.isnan() else (drawn - label).abs() < 1e-6
        expected = float(answer.log_prob(label.expand(20_000)).exp()[0])
        assert float(share.double().mean()) == pytest.approx(expected, abs=0.02)


@pytest.mark.long
def test_weight_is_that_of_draws():
    torch.manual_seed(0)
    annotators = GradedAnswers(2, num_grades=3)
    posteriors = {name: ConjugatePosterior(p) for name, p in annotators.priors().items()}
    summary = annotators.summary(posteriors, 0.9)
    weights = []
    for _ in range(4000):
        rates = drawn_rates(annotators)
        high, low = rates["grades_3"], rates["grades_1"]
        weights.append((high[:, 2] - low[:, 2]) - (high[:, 0] - low[:, 0]))
    drawn = torch.stack(weights).numpy()
    assert (np.abs(drawn.mean(0) - summary.weight) < 5 * drawn.std(0) / 4000**0.5).all()
    np.testing.assert_allclose(drawn.std(0), summary.weight_sd, rtol=0.1)
    assert summary.rates["grades_2"].mean.shape == (2, 4)


def test_first_looks_are_the_grades():
    looks = GradedAnswers(1, num_grades=4).first_looks(LABELS)
    assert looks[1].tolist() == [0, 1, 0, 0]
    assert looks[4].tolist() == [0.25] * 4


def test_one_grade_is_none():
    with pytest.raises(ValueError, match="num_grades is 1"):
        GradedAnswers(1, num_grades=1)
