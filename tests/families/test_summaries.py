"""Numbers for tables, against draws."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
import torch

from pyro_crowdclust.families import (
    Beta,
    Categorical,
    Dirichlet,
    beta_of_moments,
    beta_summary,
)

from ..comparisons import assert_mean
from ..oracles import random_natural


@pytest.mark.parametrize("family", [Beta(), Dirichlet(4), Categorical(3)], ids=str)
def test_summary_is_that_of_draws(family):
    eta = random_natural(family, 2)
    summary = family.summary(eta, interval=0.8)
    drawn = family.sample(eta.expand(20_000, 2, family.size))
    assert_mean(drawn, torch.as_tensor(summary.mean))
    torch.testing.assert_close(torch.as_tensor(summary.sd), drawn.std(0), rtol=0.05, atol=1e-3)
    inside = (drawn >= torch.as_tensor(summary.lower)) & (drawn <= torch.as_tensor(summary.upper))
    # Of what is 0 or 1 an interval can only hold more.
    assert (inside.double().mean(0) > 0.8 - 0.02).all()
    if not isinstance(family, Categorical):
        assert (inside.double().mean(0) < 0.8 + 0.02).all()


def test_without_mass_no_quantile_is_computed(monkeypatch):
    successes, failures = np.array([1.0, 40.0]), np.array([3.0, 0.5])
    full = beta_summary(successes, failures, 0.9)
    assert (full.lower < full.mean).all()
    assert (full.mean < full.upper).all()

    def refuse(*_):
        pytest.fail("a quantile was computed")

    monkeypatch.setattr(type(scipy.stats.beta), "_ppf", refuse)
    alone = beta_summary(successes, failures, 0.0)
    np.testing.assert_array_equal(alone.mean, full.mean)
    np.testing.assert_array_equal(alone.sd, full.sd)
    np.testing.assert_array_equal(alone.lower, full.mean)
    np.testing.assert_array_equal(alone.upper, full.mean)


def test_a_beta_is_found_by_its_moments():
    successes, failures = np.array([1.0, 40.0, 0.3]), np.array([3.0, 0.5, 0.3])
    moments = scipy.stats.beta(successes, failures).stats("mv")
    np.testing.assert_allclose(beta_of_moments(*moments), [successes, failures])


def test_moments_of_no_beta_have_shapes_that_are_finite_and_positive():
    mean, variance = np.array([0.2, 0.2]), np.array([0.0, 0.3])
    certain, unknown = np.stack(beta_of_moments(mean, variance), 1)
    np.testing.assert_allclose(certain, [0.2 * 1.6e11, 0.8 * 1.6e11])
    np.testing.assert_allclose(unknown, [0.2e-6, 0.8e-6])


def test_moments_of_shares_are_those_of_their_betas():
    counts = torch.tensor([[3.0, 2.0, 0.5], [0.7, 4.0, 9.0]], dtype=torch.float64)
    mean, variance = Dirichlet(3).share_moments(counts - 1)
    expected = scipy.stats.beta(counts.numpy(), (counts.sum(1, keepdim=True) - counts).numpy())
    np.testing.assert_allclose(mean, expected.mean())
    np.testing.assert_allclose(variance, expected.var())
    mean, variance = Beta().share_moments(counts[:, :2] - 1)
    expected = scipy.stats.beta(*counts[:, :2].numpy().T)
    np.testing.assert_allclose(mean, expected.mean())
    np.testing.assert_allclose(variance, expected.var())
