"""Networks that model and guide call, but that are no part of them."""

from __future__ import annotations

from functools import partial

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer.autoguide import AutoNormal
from torch import nn

from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.networks import GaussianRecognition, SkipMLP
from pyro_crowdclust.training.module_checks import called_modules, check_trained

from ..crowds import DIM, NUM_FEATURES, crowd, deep_mixture, quiet_fit
from ..plain_pyro import noise_around


def a_network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(DIM, NUM_FEATURES), nn.Tanh())


def of_network(latent, network):
    return dist.Normal(network(latent), 1.0).to_event(1)


class Emission(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, latent):
        return of_network(latent, self.network)


GLOBAL = a_network().double()


def by_global(latent):
    return of_network(latent, GLOBAL)


def by_default(latent, network=GLOBAL):
    return of_network(latent, network)


class NoModule:
    def __init__(self, network):
        self.network = network

    def __call__(self, latent):
        return of_network(latent, self.network)


def fitted(emission):
    model = deep_mixture(emission)
    guide = MessagePassingGuide(model, GaussianRecognition(SkipMLP((4, 2 * DIM)), DIM))
    return quiet_fit(model, guide, crowd(), epochs=1)


@pytest.mark.parametrize(
    "make",
    [
        lambda network: lambda latent: of_network(latent, network),
        lambda network: partial(of_network, network=network),
        lambda network: by_global,
        lambda network: by_default,
        NoModule,
    ],
    ids=["closure", "partial", "global", "default", "object"],
)
def test_networks_of_an_emission_that_is_no_module_are_refused(make):
    said = r"a Linear is called \(in of_network, test_module_checks.py line \d+\).*nn.Module"
    with pytest.raises(ValueError, match=said):
        fitted(make(a_network().double()))


def test_networks_of_modules_are_trained():
    network = a_network().double()
    before = network[0].weight.detach().clone()
    result = fitted(Emission(network))
    assert not torch.equal(result.model.emission.function.network[0].weight, before)
    assert torch.equal(network[0].weight, before)


def test_networks_that_are_not_to_be_trained_may_be_anywhere():
    network = a_network().double().requires_grad_(False)
    fitted(lambda latent: of_network(latent, network))


def test_a_model_function_that_does_not_register_its_network_is_refused():
    network = nn.Linear(1, 1).double()

    def model(batch):
        scale = pyro.sample("scale", dist.LogNormal(0.0, 1.0))
        with pyro.plate("items", batch.num_items, subsample=batch.items):
            o = dist.Normal(network(batch.features).squeeze(-1), scale)
            pyro.sample("o", o, obs=batch.features[:, 0])

    with pytest.raises(ValueError, match=r"a Linear is called \(in model, "):
        quiet_fit(model, AutoNormal(model), noise_around(3.0))


def test_only_calls_within_the_block_are_collected():
    network, without = nn.Linear(1, 1), nn.Tanh()
    with called_modules() as called:
        without(network(torch.zeros(1)))
    nn.Linear(1, 1)(torch.zeros(1))
    assert list(called) == [network]
    check_trained(called, network)
    check_trained(called, nn.ModuleList([network]))
    with pytest.raises(ValueError, match="a Linear is called"):
        check_trained(called, without)
