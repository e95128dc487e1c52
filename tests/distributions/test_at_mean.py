"""Posteriors whose sites return their mean, and points."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.distributions import (
    ConjugateAtMean,
    GaussianAtMean,
)
from pyro_crowdclust.distributions.at_mean import Point
from pyro_crowdclust.distributions.statistics import Conjugate
from pyro_crowdclust.families import (
    REGISTRY,
    Moments,
)

from ..comparisons import same
from ..oracles import random_natural
from .expectations import expectation, full_normal, random_moments

every_family = pytest.mark.parametrize("family", REGISTRY.values(), ids=REGISTRY.keys())


@every_family
def test_posterior_at_its_mean(family):
    eta, prior = random_natural(family, 4), random_natural(family, 4)
    posterior = ConjugateAtMean(family, eta)
    mean = posterior.rsample()
    same(mean, family.expected_statistics(eta))
    same(posterior.log_prob(mean), -family.entropy(eta))
    elbo = Conjugate(family, prior).log_prob(mean) - posterior.log_prob(mean)
    same(elbo, -family.kl_divergence(eta, prior))


def test_gaussian_at_its_own_moments_is_minus_the_entropy():
    moments = random_moments(4, dim=3)
    posterior = GaussianAtMean(moments)
    value = posterior.rsample()
    normal = full_normal(moments)
    same(posterior.log_prob(value), -normal.entropy())
    same(posterior.log_prob(value.clone()), -normal.entropy())


def test_gaussian_at_other_moments_is_the_expected_log_density():
    own, other = random_moments(4, dim=3), random_moments(4, dim=3)
    normal = full_normal(own)
    ours = GaussianAtMean(own).log_prob(other.flat())
    same(ours, expectation(normal.log_prob, other))
    at_a_point = GaussianAtMean(own).log_prob(Moments.point(other.mean).flat())
    same(at_a_point, normal.log_prob(other.mean))


def test_point():
    value = torch.randn(4, 2)
    same(Point(value).rsample(), value)
    same(Point(value).log_prob(value), torch.zeros(4))
    log_density = torch.randn(4)
    same(Point(value, log_density).log_prob(value), log_density)
