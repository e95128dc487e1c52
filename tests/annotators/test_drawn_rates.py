"""Rates of workers over draws of a partition: moments against draws of all that is random."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch

from pyro_crowdclust.annotators import (
    GradedAnswers,
    GradedPairs,
    HalvedGrades,
    TwoCoin,
    looks_of,
    summarize_workers,
)
from pyro_crowdclust.annotators.drawn_rates import DrawnShares, LookShares, weight_of
from pyro_crowdclust.distributions import ConjugatePosterior
from pyro_crowdclust.families import beta_summary

from ..registries import OneAccuracy, WorkerKinds

DRAWS, WORKERS, COUNT = 3, 2, 60_000


def random_eta(*shape: int) -> torch.Tensor:
    return 6 * torch.rand(*shape, generator=torch.Generator().manual_seed(len(shape)))


def sampled(eta: torch.Tensor) -> torch.Tensor:
    return torch.distributions.Dirichlet(eta + 1).sample((COUNT,))


def assert_moments(shares: DrawnShares, samples: torch.Tensor) -> None:
    """Mean and variance of every share given every draw, within six standard errors."""
    away = samples - samples.mean(0)
    error = samples.std(0) / COUNT**0.5
    assert ((shares.mean - samples.mean(0)).abs() <= 6 * error).all()
    error = away.square().std(0) / COUNT**0.5
    assert ((shares.variance - samples.var(0)).abs() <= 6 * error).all()


def test_shares_averages_and_mixtures_have_their_moments():
    """Of three looks, two kinds of pairs, and what workers say of each look: one of four things."""
    eta, counts = random_eta(DRAWS, 2, 3), torch.rand(DRAWS, 2) + 0.1
    looks, rows = sampled(eta), random_eta(3, DRAWS, WORKERS, 4)
    assert_moments(DrawnShares.of(eta), looks)
    averages = (looks * counts.unsqueeze(-1)).sum(2) / counts.sum(1, keepdim=True)
    shares = LookShares.of(eta, counts)
    variance = shares.square.diagonal(dim1=-2, dim2=-1) - shares.mean**2
    assert_moments(DrawnShares(shares.mean, variance), averages)
    said = [DrawnShares.of(row) for row in rows]
    drawn = sum(averages[..., look, None, None] * sampled(row) for look, row in enumerate(rows))
    assert_moments(shares.mixed(said), drawn)
    assert_moments(shares.mixed(said).reversed(), drawn.flip(-1))


EVERY_KIND = {
    "two coins": TwoCoin(WORKERS),
    "grades of looks": GradedAnswers(WORKERS, num_grades=2),
    "halves of grades": HalvedGrades(WORKERS, num_grades=4),
    "one accuracy": OneAccuracy(WORKERS),
    "grades of pairs": GradedPairs(WORKERS, num_grades=3),
}


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_summaries_are_of_all_draws_together(kind):
    """Looks are of two kinds of pairs, each that are different, then that are the same."""
    annotators = EVERY_KIND[kind]
    priors = annotators.priors()
    given = {
        name: random_eta(place + 1, DRAWS, WORKERS, prior.family.size)[place]
        for place, (name, prior) in enumerate(priors.items())
    }
    posteriors = {name: ConjugatePosterior(prior) for name, prior in priors.items()}
    looks, counts = random_eta(DRAWS, 4, 2), torch.rand(DRAWS, 4, 2) * 20
    summary = looks_of(annotators).summary_of_draws(posteriors, given, looks, counts, 0.8)
    expected = {name: sampled(eta) for name, eta in given.items()}
    drawn, number = sampled(looks), counts.sum(-1)
    differ, same = (
        (drawn[:, :, place::2] * number[:, place::2, None]).sum(2)
        / number[:, place::2].sum(1)[:, None]
        for place in (0, 1)
    )
    if kind == "two coins":
        alpha, beta = (part[..., 0] for part in expected.values())
        as_same, as_different = same[..., 1:], differ[..., :1]
        expected = {
            "sensitivity": as_same * alpha + (1 - as_same) * (1 - beta),
            "specificity": as_different * beta + (1 - as_different) * (1 - alpha),
        }
    if kind == "grades of looks":
        first, second = expected.values()
        for name, shares in (("if_same", same), ("if_different", differ)):
            low, high = (shares[..., look, None, None] for look in (0, 1))
            expected[name] = low * first + high * second
    if kind == "halves of grades":
        first, second, *within = expected.values()
        within = torch.cat([*within, torch.ones_like(within[0][..., :1])], -1)
        expected = {}
        for name, shares in (("if_same", same), ("if_different", differ)):
            low, high = (shares[..., look, None, None] for look in (0, 1))
            expected[name] = (low * first + high * second)[..., [0, 0, 1, 1, 2]] * within
    if kind == "one accuracy":
        expected = {"accuracy": expected["accuracy"][..., 0]}
    assert set(summary.rates) == set(expected)
    for name, samples in expected.items():
        rates, found = samples.flatten(0, 1), summary.rates[name]
        np.testing.assert_allclose(found.mean, rates.mean(0), atol=0.005)
        np.testing.assert_allclose(found.sd, rates.std(0), rtol=0.02)
        size = found.mean * (1 - found.mean) / found.sd**2 - 1
        of_rate = scipy.stats.beta(found.mean * size, (1 - found.mean) * size)
        np.testing.assert_allclose(found.lower, of_rate.ppf(0.1), atol=1e-9)
        np.testing.assert_allclose(found.upper, of_rate.ppf(0.9), atol=1e-9)
    if kind not in ("two coins", "halves of grades"):  # what an answer weighs is of q
        of_q = (
            annotators.summary(posteriors, 0.8)
            if kind == "grades of looks"
            else summarize_workers(annotators, posteriors, 0.8)
        )
        np.testing.assert_array_equal(summary.weight, of_q.weight)


def test_of_sites_that_are_no_shares_draws_say_nothing():
    workers = WorkerKinds(WORKERS)
    posteriors = {name: ConjugatePosterior(prior) for name, prior in workers.priors().items()}
    nothing = torch.zeros(DRAWS, 2, 2)
    found = looks_of(workers).summary_of_draws(posteriors, {}, nothing, nothing, 0.8)
    expected = summarize_workers(workers, posteriors, 0.8)
    np.testing.assert_array_equal(found.rates["kind"].mean, expected.rates["kind"].mean)
    np.testing.assert_array_equal(found.weight, expected.weight)


def test_weight_of_betas_has_the_moments_of_its_log_odds():
    rates = [
        (np.array([7.0, 1.5]), np.array([3.0, 0.8])),
        (np.array([2.0, 9.0]), np.array([5.0, 2.0])),
    ]
    mean, sd = weight_of(*(beta_summary(*rate, 0.9) for rate in rates))
    rng = np.random.default_rng(0)
    drawn = sum(scipy.special.logit(rng.beta(*rate, size=(COUNT, 2))) for rate in rates)
    assert (np.abs(mean - drawn.mean(0)) < 5 * sd / COUNT**0.5).all()
    np.testing.assert_allclose(sd, drawn.std(0), rtol=0.02)
