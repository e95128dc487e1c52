"""Emissions: densities, supports, linear starts, and one of a user's inside a whole fit."""

from __future__ import annotations

import math

import numpy as np
import pyro.distributions as dist
import pytest
import scipy.stats
import torch
from torch import nn

from pyro_crowdclust.emissions import (
    BernoulliEmission,
    Emission,
    Identity,
    NormalEmission,
    SoftBernoulli,
    as_emission,
)
from pyro_crowdclust.guides import AmortizedGuide, MessagePassingGuide
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.networks import AmortizedRecognition, GaussianRecognition, SkipMLP

from .crowds import DIM, NUM_CLUSTERS, NUM_FEATURES, blobs, crowd, deep_mixture, quiet_fit


def test_soft_bernoulli_at_no_and_yes_is_bernoulli():
    logits = 3 * torch.randn(4, 5)
    value = torch.rand(4, 5).round()
    ours, theirs = SoftBernoulli(logits), torch.distributions.Bernoulli(logits=logits)
    torch.testing.assert_close(ours.log_prob(value), theirs.log_prob(value))
    torch.testing.assert_close(ours.mean, theirs.mean)


def test_soft_bernoulli_in_between_is_the_expectation():
    logits, value = 3 * torch.randn(4, 5), torch.rand(4, 5)
    theirs = torch.distributions.Bernoulli(logits=logits)
    yes, no = theirs.log_prob(torch.tensor(1.0)), theirs.log_prob(torch.tensor(0.0))
    expected = value * yes + (1 - value) * no
    torch.testing.assert_close(SoftBernoulli(logits).log_prob(value), expected)


def test_soft_bernoulli_far_out_is_finite():
    logits = torch.tensor([800.0, -800.0])
    assert SoftBernoulli(logits).log_prob(torch.tensor([0.0, 0.0])).tolist() == [-800.0, 0.0]
    assert SoftBernoulli(logits).log_prob(torch.tensor([1.0, 1.0])).tolist() == [0.0, -800.0]


def test_gradient_of_soft_bernoulli_is_value_minus_mean():
    logits = torch.randn(6, requires_grad=True)
    value = torch.rand(6)
    SoftBernoulli(logits).log_prob(value).sum().backward()
    torch.testing.assert_close(logits.grad, (value - logits.sigmoid()).detach())


def test_soft_bernoulli_is_a_pyro_distribution():
    logits = torch.tensor([0.5, -1.0])
    many = SoftBernoulli(logits).expand((10_000, 2))
    assert many.batch_shape == (10_000, 2)
    draws = many.sample()
    assert draws.unique().tolist() == [0, 1]
    error = (logits.sigmoid() * (1 - logits.sigmoid()) / 10_000).sqrt()
    assert ((draws.mean(0) - logits.sigmoid()).abs() < 5 * error).all()
    assert SoftBernoulli(logits).sample((3,)).shape == (3, 2)
    assert SoftBernoulli(logits).log_prob(torch.ones(7, 1)).shape == (7, 2)
    assert SoftBernoulli(logits).to_event(1).log_prob(torch.ones(2)).shape == ()


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


def test_identity():
    assert Identity.observes_latent


def test_the_base_class_knows_no_distribution():
    with pytest.raises(NotImplementedError):
        Emission()(torch.zeros(2))


class StudentNoise(nn.Module):
    """A user's emission: heavy tails, a network of its own, nothing of the library's."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Linear(DIM, NUM_FEATURES)
        self.log_scale = nn.Parameter(torch.tensor(-1.0))

    def forward(self, x):
        return dist.StudentT(4.0, self.network(x), self.log_scale.exp()).to_event(1)


def test_as_emission_wraps_what_is_no_emission():
    ours, users = NormalEmission(SkipMLP((DIM, 4)), 4), StudentNoise()
    assert as_emission(ours) is ours
    wrapped = as_emission(users)
    assert isinstance(wrapped, Emission)
    assert not wrapped.observes_latent
    assert set(wrapped.parameters()) == set(users.parameters())
    x = torch.randn(3, DIM)
    o = torch.randn(3, NUM_FEATURES)
    torch.testing.assert_close(wrapped(x).log_prob(o), users(x).log_prob(o))
    wrapped.check(o)
    given = torch.ones(NUM_FEATURES, DIM), torch.ones(NUM_FEATURES)
    assert wrapped.start_at_linear(*given) is False
    function = as_emission(lambda x: dist.Normal(x, 1.0).to_event(1))
    assert function(x).log_prob(x).shape == (3,)


def test_a_start_trains_networks_and_no_scales_next_to_them():
    users = StudentNoise()
    assert set(as_emission(users).network_parameters()) == set(users.network.parameters())
    ours = NormalEmission(nn.Linear(DIM, 4), 4)
    assert set(ours.network_parameters()) == set(ours.network.parameters())
    linear = nn.Linear(DIM, 4)  # nothing but parameters of its own
    assert set(as_emission(linear).network_parameters()) == set(linear.parameters())
    assert as_emission(lambda x: dist.Normal(x, 1.0)).network_parameters() == []


@pytest.mark.parametrize("guide", ["message passing", "amortized"])
def test_a_users_emission_and_networks_in_a_whole_fit(guide):
    data, model = crowd(), deep_mixture(StudentNoise())
    if guide == "amortized":
        recognition = AmortizedRecognition((NUM_FEATURES, 5), DIM, NUM_CLUSTERS)
        made = AmortizedGuide(model, recognition)
    else:
        made = MessagePassingGuide(model, GaussianRecognition(SkipMLP((4, 2 * DIM)), DIM))
    before = model.emission.function.network.weight.clone()
    result = quiet_fit(model, made, data, epochs=30)
    assert result.stop_reason.startswith("budget")
    assert not torch.equal(result.model.emission.function.network.weight, before)
    assert result.history["elbo"].iloc[-1] > result.history["elbo"].iloc[0]
    assert clustering_accuracy(blobs()[1], result.assignments) > 0.9


def test_a_users_recognition_network_in_a_whole_fit():
    """No linear path for the PCA start to set; it is left as it is."""
    network = nn.Sequential(nn.Linear(NUM_FEATURES, 8), nn.Tanh(), nn.Linear(8, 2 * DIM))
    model = deep_mixture()
    guide = MessagePassingGuide(model, GaussianRecognition(network, DIM))
    result = quiet_fit(model, guide, crowd(), epochs=2)
    assert result.stop_reason.startswith("budget")
    assert np.isfinite(result.history["elbo"]).all()
