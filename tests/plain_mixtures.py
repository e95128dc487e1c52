"""Mixtures of two clouds on a line, written out in Pyro, with answers about pairs or without."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.infer.autoguide import AutoNormal
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.distributions import SameCluster
from pyro_crowdclust.minibatches import Batch

from .crowds import quiet_fit

ENUMERATE = {"enumerate": "parallel"}
adam = partial(torch.optim.Adam, lr=0.05)


def mixture(batch: Batch) -> None:
    weights = pyro.sample("weights", dist.Dirichlet(2 * torch.ones(2)))
    with pyro.plate("cluster", 2):
        location = pyro.sample("location", dist.Normal(0.0, 10.0))
    with pyro.plate("items", batch.num_items, subsample=batch.items):
        z = pyro.sample("z", dist.Categorical(weights), infer=ENUMERATE)
        pyro.sample("o", dist.Normal(location[z], 1.0), obs=batch.features[:, 0])


def with_answers(batch: Batch, of_pairs: Callable[..., Tensor] = lambda right, _: right) -> None:
    """``of_pairs`` says how often answers are right, from the rate and the batch."""
    with pyro.plate("cluster", 2):
        location = pyro.sample("location", dist.Normal(0.0, 10.0))
    right = pyro.sample("right", dist.Beta(8.0, 2.0))
    with pyro.plate("items", len(batch.items)), poutine.scale(scale=batch.item_weight):
        z = pyro.sample("z", dist.Categorical(torch.ones(2)), infer=ENUMERATE)
        pyro.sample("o", dist.Normal(location[z], 1.0), obs=batch.features[:, 0])
    if batch.num_pairs:
        with pyro.plate("pairs", batch.num_pairs), poutine.scale(scale=batch.pair_scale):
            ends = batch.left, batch.right, batch.num_paired
            same = pyro.sample("same", SameCluster(z, *ends))
            rate = of_pairs(right, batch)
            yes = torch.where(same > 0.5, rate, 1 - rate)
            pyro.sample("label", dist.Bernoulli(yes), obs=batch.label)


def two_clouds(num_items: int, pairs: dict | None = None) -> CrowdData:
    """A cloud around -2 and, of every other item, one around 2."""
    centers = torch.tensor([-2.0, 2.0])[torch.arange(num_items) % 2]
    noise = torch.randn(num_items, generator=torch.Generator().manual_seed(0))
    return CrowdData((centers + noise).unsqueeze(1), pairs)


def normal_guide(model, *hidden: str, first: tuple[float, float] = (-2.0, 2.0)) -> AutoNormal:
    """Of all sites but some of the items, with clusters that begin at two places."""

    def start(site: dict) -> torch.Tensor:
        return torch.tensor(first) if site["name"] == "location" else site["fn"].mean

    return AutoNormal(poutine.block(model, hide=list(hidden)), init_loc_fn=start)


def fit_mixture(first: tuple[float, float] = (-2.0, 2.0), epochs: int = 30) -> Fitted:
    """Two thirds are in the cloud around -2."""
    data = two_clouds(60).features[[i for i in range(60) if i % 4 != 1]]
    guide = normal_guide(mixture, "z", first=first)
    return quiet_fit(mixture, guide, CrowdData(data), epochs=epochs, optim=adam)
