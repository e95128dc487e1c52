"""What likeness says: against scikit-learn, and against the ratio of known densities."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from pyro_crowdclust.partitions import LikenessRegression, logistic_regression


def test_it_is_the_logistic_regression_less_what_is_known_without_it():
    rng = np.random.default_rng(0)
    x = rng.normal([5.0, -2.0], [3.0, 0.1], size=(300, 2))
    same = rng.random(300) < 1 / (1 + np.exp(-(x[:, 0] - 6) + 8 * (x[:, 1] + 2)))
    regression = LikenessRegression(2)
    regression.learn(torch.tensor(x), torch.tensor(same).double())
    standard = (x - x.mean(0)) / x.std(0)
    peer = LogisticRegression(C=1.0, tol=1e-10).fit(standard, same)
    share = (same.sum() + 1) / (len(same) + 2)
    expected = peer.decision_function(standard) - logit(share)
    np.testing.assert_allclose(regression.log_ratio(torch.tensor(x)), expected, atol=1e-4)


@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_coefficients_are_at_the_mode(scale):
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(60, 2))
    x = np.column_stack([numbers, np.ones(60)])
    target = expit(scale * (x @ [1.0, -0.5, 0.7] + rng.normal(size=60)))

    def loss(beta: np.ndarray) -> float:
        score = x @ beta
        fit = (target * np.logaddexp(0, -score) + (1 - target) * np.logaddexp(0, score)).sum()
        return fit + (beta[:2] @ beta[:2] + 1e-6 * beta[2] ** 2) / 2

    mode = minimize(loss, np.zeros(3), tol=1e-12).x
    found = logistic_regression(torch.tensor(numbers), torch.tensor(target))
    np.testing.assert_allclose(found, mode, atol=1e-4)


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_the_ratio_of_densities_does_not_depend_on_how_many_are_the_same(share):
    """Of N(1, 1) and N(-1, 1) it is 2 x."""
    rng = np.random.default_rng(1)
    same = rng.random(40_000) < share
    x = torch.tensor(rng.normal(2.0 * same - 1)).unsqueeze(1)
    regression = LikenessRegression(1)
    regression.learn(x, torch.tensor(same).double())
    points = torch.tensor([[-1.0], [0.0], [1.0]], dtype=torch.float64)
    np.testing.assert_allclose(regression.log_ratio(points), [-2.0, 0.0, 2.0], atol=0.12)


def test_before_it_has_learned_and_of_nothing_it_says_nothing():
    regression = LikenessRegression(3)
    x = torch.randn(4, 3, dtype=torch.float64)
    regression.learn(x[:0], x[:0, 0])
    assert regression.log_ratio(x).tolist() == [0.0] * 4


@pytest.mark.parametrize("same", [0.0, 1.0])
def test_pairs_that_are_all_alike_or_all_the_same_leave_finite_numbers(same):
    regression = LikenessRegression(2)
    x = torch.tensor([[1.0, 3.0]] * 5, dtype=torch.float64)
    x[:, 1] += torch.arange(5)
    regression.learn(x, torch.full((5,), same, dtype=torch.float64))
    assert bool(regression.log_ratio(x).isfinite().all())
