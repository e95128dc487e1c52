"""Curves of judges: the sum over the trait, the modes of the curves, and the cut."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import bernoulli, multivariate_normal, norm

from pyro_crowdclust.pooling.judge_curves import JudgeCurves, deviations_of_judges, first_trait


def random_round(seed: int = 0) -> tuple[np.ndarray, ...]:
    """Curves, answers, which are given, and q of the trait, all at random."""
    rng = np.random.default_rng(seed)
    curves = JudgeCurves(
        rng.normal(size=(3, 2)), rng.uniform(1, 3, 3), rng.normal(size=2), 2 * np.eye(2), 1.5
    )
    given = rng.random((8, 3)) < 0.7
    answers = np.where(given, 2 * rng.normal(size=(8, 3)), 0.0)
    return curves, answers, given, rng.dirichlet(np.ones(25), size=8)


def test_the_posterior_of_the_trait_is_that_of_a_loop():
    curves, answers, given, trait = random_round()
    points = np.linspace(-6, 6, 25)
    for i in range(len(answers)):
        weight = trait[0].copy()
        for j in np.flatnonzero(given[i]):
            slope, shift = curves.line[j]
            weight *= norm.pdf(answers[i, j], slope * points - shift, np.sqrt(curves.variance[j]))
        found = curves.posterior(answers, given, trait[0])[i]
        np.testing.assert_allclose(found, weight / weight.sum(), atol=1e-12)


def test_curves_are_at_the_mode():
    curves, answers, given, trait = random_round(1)
    points = np.linspace(-6, 6, 25)
    found = curves.learned(answers, given, trait).line

    def loss(line: np.ndarray, j: int) -> float:
        density = norm.logpdf(
            answers[:, [j]], line[0] * points - line[1], np.sqrt(curves.variance[j])
        )
        pooled = multivariate_normal.logpdf(line, curves.mean, curves.covariance)
        return -(given[:, [j]] * trait * density).sum() - pooled

    for j in range(3):
        mode = minimize(loss, np.zeros(2), args=(j,), tol=1e-10).x
        np.testing.assert_allclose(found[j], mode, atol=1e-4)


def test_what_judges_have_in_common_is_that_of_all_and_of_two_more():
    curves, answers, given, trait = random_round(1)
    found = curves.learned(answers, given, trait)
    mean = (found.line.sum(0) + 2 * np.array([0.3, 0.0])) / 5
    np.testing.assert_allclose(found.mean, mean)
    spread = sum(np.outer(line - mean, line - mean) for line in found.line)
    np.testing.assert_allclose(found.covariance, (spread + 2 * np.diag([0.02, 0.1])) / 5)
    assert found.common_variance == pytest.approx((found.variance.sum() + 2 * 0.5) / 5)


def test_units_and_places_to_start_at_are_those_of_a_loop():
    _, answers, given, _ = random_round(3)
    own = [column[is_given] for column, is_given in zip(answers.T, given.T, strict=True)]
    squares = [((one - one.mean()) ** 2).sum() for one in own]
    common = (sum(squares) + 5 * 4.0) / (given.sum() + 5) + 0.01
    expected = [
        np.sqrt((square + 5 * common) / (len(one) + 5))
        for square, one in zip(squares, own, strict=True)
    ]
    np.testing.assert_allclose(deviations_of_judges(answers, given), expected)
    points = np.linspace(-6, 6, 25)
    lower, upper = (norm.pdf(points, side, 1.5) for side in (-2.5, 2.5))
    for row, is_given, start in zip(answers, given, first_trait(answers, given), strict=True):
        share = expit(row[is_given].mean())
        sides = (1 - share) * lower / lower.sum() + share * upper / upper.sum()
        np.testing.assert_allclose(start, sides)


@pytest.mark.parametrize("expected", [0.01, 0.2, 0.6])
def test_the_cut_is_where_a_formula_puts_it(expected):
    curves = random_round(2)[0]
    points, cuts = np.linspace(-6, 6, 25), np.linspace(-3, 3, 61)
    rho = np.random.default_rng(2).dirichlet(np.ones(25))
    weight = norm.pdf(cuts)
    told = curves.line[:, 0] ** 2 / curves.variance
    for (slope, shift), own in zip(curves.line, told, strict=True):
        weight *= norm.pdf(cuts, shift / slope) ** (3 * own / told.sum() / 5)
    above = expit(2 * (points[:, None] - cuts))
    share = rho @ above
    log_likelihood = expected * np.log(share) + (1 - expected) * np.log(1 - share)
    weight *= np.exp(40 * log_likelihood)
    weight *= (1 - rho @ bernoulli.entropy(above) / bernoulli.entropy(share)) ** 9
    found = curves.cut(rho, expected, 40.0)
    np.testing.assert_allclose(found, weight / weight.sum(), rtol=1e-9, atol=1e-200)
