"""Rates of the workers summed out, against integrals over them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import torch

from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.data.pair_answers import Answers
from pyro_crowdclust.inference.answer_evidence import log_marginal_likelihood


def test_the_likelihood_is_an_integral_over_the_rates():
    rng = np.random.default_rng(0)
    left, right, worker = rng.integers([4, 4, 2], size=(30, 3)).T
    label = rng.integers(2, size=30).astype(float)
    answers = Answers(*(torch.as_tensor(part) for part in (left, right, worker, label)))
    z = np.array([0, 1, 1, 0])
    annotators = TwoCoin(2, (2.0, 1.5), (3.0, 1.0))
    same, expected = z[left] == z[right], 0.0
    for one, (kind, (a, b)) in itertools.product(range(2), [(1, (2.0, 1.5)), (0, (3.0, 1.0))]):
        of_kind = label[(worker == one) & (same == bool(kind))] == kind
        right_ones, wrong_ones = of_kind.sum(), (~of_kind).sum()

        def density(rate, right=right_ones, wrong=wrong_ones, a=a, b=b):
            prior = rate ** (a - 1) * (1 - rate) ** (b - 1)
            return prior * rate**right * (1 - rate) ** wrong / scipy.special.beta(a, b)

        expected += math.log(scipy.integrate.quad(density, 0, 1)[0])
    found = log_marginal_likelihood(torch.as_tensor(z), annotators, answers)
    assert float(found) == pytest.approx(expected, rel=1e-6)


def test_answers_come_to_workers_on_another_device():
    answers = Answers(*torch.tensor([[0, 0], [1, 2], [0, 0]]), torch.tensor([1.0, 0.0]))
    found = log_marginal_likelihood(torch.tensor([0, 0, 1]), TwoCoin(1).to("meta"), answers)
    assert found.device.type == "meta"
