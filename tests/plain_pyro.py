"""Plain Pyro models and guides of a user's, items around a place, and where a fit finds it."""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine

from pyro_crowdclust import CrowdData, Fitted


def noise_around(center: float, num_items: int = 40) -> CrowdData:
    generator = torch.Generator().manual_seed(0)
    return CrowdData(center + torch.randn(num_items, 1, generator=generator))


def hand_guide_location(result: Fitted) -> float:
    return result.parameter_store["params"]["loc"].item()


def autoguide_location(result: Fitted) -> float:
    return dict(result.guide.named_parameters())["locs.mean_unconstrained"].item()


def two_sites(batch):
    mean = pyro.sample("mean", dist.Normal(0.0, 1.0))
    scale = pyro.sample("scale", dist.LogNormal(0.0, 1.0))
    with pyro.plate("items", len(batch.items)), poutine.scale(scale=batch.item_weight):
        pyro.sample("o", dist.Normal(mean, scale), obs=batch.features[:, 0])


def guide_of(*names):
    def guide(batch):
        for name in names:
            pyro.sample(name, dist.LogNormal(0.0, 1.0))

    return guide
