"""Assignments and observations, of real values and at means."""

from __future__ import annotations

import itertools

import pytest
import scipy.stats
import torch

from pyro_crowdclust.distributions import Assignment, ComponentObservation, LatentObservation
from pyro_crowdclust.families import Moments

from ..comparisons import same
from .expectations import expectation, mixture, random_moments, unit


def test_assignment_of_a_real_value():
    log_weights = torch.randn(5, 3).log_softmax(-1)
    z = torch.tensor([0, 2, 1, 1, 0])
    ours = Assignment(log_weights).log_prob(torch.eye(3)[z])
    same(ours, torch.distributions.Categorical(logits=log_weights).log_prob(z))


def test_assignment_at_the_mean_is_the_expectation():
    log_weights, q = torch.randn(5, 3), torch.randn(5, 3).softmax(-1)
    distribution = Assignment(log_weights)
    expected = sum(q[:, k] * distribution.log_prob(unit(k, 3).expand(5, 3)) for k in range(3))
    same(distribution.log_prob(q), expected)


@pytest.mark.parametrize("rows", [(), (1,), (5,)])
def test_an_assignment_that_was_expanded_weighs_values_of_all_shapes(rows):
    log_weights = torch.randn(*rows, 3)
    expanded = Assignment(log_weights).expand([5])
    q, repeated = torch.randn(5, 3).softmax(-1), log_weights.expand(5, 3)
    same(expanded.log_prob(q), (repeated * q).sum(-1))
    same(expanded.log_prob(expanded.enumerate_support(expand=False)), repeated.T)


@pytest.mark.parametrize("expand", [True, False])
def test_assignment_support(expand):
    support = Assignment(torch.randn(5, 3)).enumerate_support(expand=expand)
    assert support.shape == (3, 5 if expand else 1, 3)
    for k in range(3):
        assert (support[k] == unit(k, 3)).all()


def test_assignment_draws_have_the_weights():
    weights = torch.tensor([0.2, 0.5, 0.3])
    distribution = Assignment(weights.log()).expand([20_000])
    z = distribution.sample()
    assert (z.sum(-1) == 1).all()
    same(distribution.log_prob(z), (z @ weights).log())
    error = (weights * (1 - weights) / 20_000).sqrt()
    assert ((z.mean(0) - weights).abs() < 6 * error).all()


def test_component_observation_of_real_values():
    family, theta = mixture(3, 2)
    z = torch.tensor([0, 2, 1, 1])
    x = torch.randn(4, 2)
    statistics = family.sufficient_statistics(theta)
    parts = family, statistics, torch.eye(3)[z]
    likelihood = ComponentObservation(*parts, family.observation_size)
    ours = likelihood.log_prob(x)
    same(LatentObservation(*parts, Moments.size(2)).log_prob(Moments.point(x).flat()), ours)
    for row, k in enumerate(z):
        expected = scipy.stats.multivariate_normal.logpdf(
            x[row].numpy(), theta.mean[k].numpy(), theta.covariance[k].numpy()
        )
        assert ours[row].item() == pytest.approx(expected, abs=1e-10)


def test_component_observation_at_means_is_the_expectation():
    """Over z, over two possible worlds of theta, and over x."""
    worlds = [mixture(3, 2) for _ in range(2)]
    family = worlds[0][0]
    chance = [0.3, 0.7]
    q, moments = torch.randn(4, 3).softmax(-1), random_moments(4, dim=2)
    mean = sum(
        p * family.sufficient_statistics(theta)
        for p, (_, theta) in zip(chance, worlds, strict=True)
    )
    likelihood = LatentObservation(family, mean, q, Moments.size(2))
    expected = torch.zeros(4)
    for p, (_, theta) in zip(chance, worlds, strict=True):
        for k in range(3):
            normal = torch.distributions.MultivariateNormal(theta.mean[k], theta.covariance[k])
            expected += p * q[:, k] * expectation(normal.log_prob, moments)
    same(likelihood.log_prob(moments.flat()), expected)


def test_component_observation_draws_from_its_cluster():
    family, theta = mixture(2, 2)
    statistics = family.sufficient_statistics(theta)
    z = torch.eye(2)[torch.arange(20_000) % 2]
    x = ComponentObservation(family, statistics, z, family.observation_size).rsample()
    assert x.shape == (20_000, 2)
    moments = Moments.of(LatentObservation(family, statistics, z, Moments.size(2)).rsample())
    assert not moments.root.any()
    for drawn, k in itertools.product((x, moments.mean), range(2)):
        own = drawn[k::2]
        error = (theta.covariance[k].diagonal() / len(own)).sqrt()
        assert ((own.mean(0) - theta.mean[k]).abs() < 6 * error).all()


def test_component_observation_expands_its_assignments():
    family, theta = mixture(3, 2)
    statistics = family.sufficient_statistics(theta)
    q = torch.randn(3).softmax(-1)
    x = random_moments(4, dim=2).flat()
    one = LatentObservation(family, statistics, q, Moments.size(2))
    many = one.expand([4])
    assert many.batch_shape == (4,)
    assert many.event_shape == one.event_shape
    same(many.log_prob(x), one.log_prob(x))
