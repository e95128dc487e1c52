"""Emissions by networks: densities, supports and linear starts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch
from torch import nn

from pyro_crowdclust.emissions import (
    BernoulliEmission,
    NormalEmission,
    SoftBernoulli,
)
from pyro_crowdclust.networks import SkipMLP

from ..crowds import DIM, NUM_FEATURES


@pytest.mark.parametrize("event_shape", [None, (2, 3)])
def test_bernoulli_emission(event_shape):
    network = SkipMLP((DIM, 5, 6))
    emission = BernoulliEmission(network, event_shape)
    x = torch.randn(3, 4, DIM)  # values of z, items
    distribution = emission(x)
    assert distribution.batch_shape == (3, 4)
    assert distribution.event_shape == (event_shape or (6,))
    o = torch.rand(4, *(event_shape or (6,)))
    flat = SoftBernoulli(network(x)).log_prob(o.flatten(1)).sum(-1)
    torch.testing.assert_close(distribution.log_prob(o), flat)


def test_event_dimensions_are_summed_as_by_to_event():
    logits = torch.randn(4, 3, 2, requires_grad=True)
    value = torch.rand(4, 3, 2)
    ours, theirs = SoftBernoulli(logits, event_dim=2), SoftBernoulli(logits).to_event(2)
    assert ours.batch_shape == theirs.batch_shape == (4,)
    assert ours.event_shape == theirs.event_shape == (3, 2)
    torch.testing.assert_close(ours.log_prob(value), theirs.log_prob(value))
    slopes = [torch.autograd.grad(way.log_prob(value).sum(), logits)[0] for way in (ours, theirs)]
    torch.testing.assert_close(*slopes)
    assert ours.support.check(value).shape == (4,)
    assert ours.expand((7, 4)).sample((5,)).shape == (5, 7, 4, 3, 2)


def test_bernoulli_emission_starts_near_a_linear_map():
    """To first order around the mean latent."""
    emission = BernoulliEmission(SkipMLP((DIM, 5, NUM_FEATURES)))
    weight, bias = 0.3 * torch.randn(NUM_FEATURES, DIM), 0.25 + 0.5 * torch.rand(NUM_FEATURES)
    emission.start_at_linear(weight, bias)
    assert torch.allclose(emission(torch.zeros(DIM)).mean, bias)
    x = torch.randn(DIM) * 1e-4
    change = (emission(x).mean - bias) / 1e-4
    torch.testing.assert_close(change, weight @ x / 1e-4, rtol=1e-2, atol=1e-3)


def test_pixels_that_are_never_on_start_without_huge_slopes():
    emission = BernoulliEmission(SkipMLP((DIM, 5, 2)))
    emission.start_at_linear(torch.ones(2, DIM), torch.tensor([0.0, 1.0]))
    assert emission.network.skip.weight.abs().max() <= 8
    chances = emission(torch.zeros(DIM)).mean
    assert chances.tolist() == pytest.approx([0.02, 0.98])


def test_normal_emission():
    network = SkipMLP((DIM, 5, NUM_FEATURES))
    emission = NormalEmission(network, NUM_FEATURES, initial_scale=0.7)
    x, o = torch.randn(3, 4, DIM), torch.randn(4, NUM_FEATURES)
    distribution = emission(x)
    assert (distribution.batch_shape, distribution.event_shape) == ((3, 4), (NUM_FEATURES,))
    expected = scipy.stats.norm.logpdf(o, network(x).detach(), 0.7 + 1e-3).sum(-1)
    np.testing.assert_allclose(distribution.log_prob(o).detach(), expected)


def test_a_feature_that_never_varies_keeps_a_finite_density():
    emission = NormalEmission(SkipMLP((DIM, 1)), 1)
    nn.init.constant_(emission.log_scale, -1000.0)
    density = emission(torch.zeros(DIM)).log_prob(emission(torch.zeros(DIM)).mean)
    assert density.item() == pytest.approx(math.log(1000 / math.sqrt(2 * math.pi)))


def test_normal_emission_starts_linear():
    emission = NormalEmission(SkipMLP((DIM, 5, NUM_FEATURES)), NUM_FEATURES)
    weight, bias = torch.randn(NUM_FEATURES, DIM), torch.randn(NUM_FEATURES)
    emission.start_at_linear(weight, bias)
    x = torch.randn(6, DIM)
    torch.testing.assert_close(emission(x).mean, x @ weight.mT + bias)


def test_reset_draws_the_network_anew_and_the_scale_back():
    emission = NormalEmission(SkipMLP((DIM, 5, NUM_FEATURES)), NUM_FEATURES, initial_scale=0.3)
    nn.init.zeros_(emission.log_scale)
    emission.draw_parameters()
    assert emission.log_scale.exp().tolist() == pytest.approx([0.3] * NUM_FEATURES)


@pytest.mark.parametrize("make", [BernoulliEmission, lambda net: NormalEmission(net, 4)])
def test_other_networks_start_as_they_are(make):
    network = nn.Sequential(nn.Linear(DIM, 5), nn.Tanh(), nn.Linear(5, NUM_FEATURES))
    before = [parameter.clone() for parameter in network.parameters()]
    emission = make(network)
    given = torch.ones(NUM_FEATURES, DIM), torch.ones(NUM_FEATURES)
    assert emission.start_at_linear(*given) is False
    assert all(map(torch.equal, before, network.parameters()))
