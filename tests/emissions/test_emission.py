"""What wraps a callable, and emissions of a user's in whole fits."""

from __future__ import annotations

import numpy as np
import pyro.distributions as dist
import pytest
import torch
from torch import nn

from pyro_crowdclust.emissions import (
    Emission,
    Identity,
    NormalEmission,
    as_emission,
)
from pyro_crowdclust.guides import AmortizedGuide, MessagePassingGuide
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.networks import AmortizedRecognition, GaussianRecognition, SkipMLP

from ..crowds import DIM, NUM_CLUSTERS, NUM_FEATURES, blobs, crowd, deep_mixture, quiet_fit


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
