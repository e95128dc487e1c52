"""Tiny problems with everything in them, small enough to sum over all assignments."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from torch import Tensor, nn

from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.emissions import BernoulliEmission, Emission, Identity, NormalEmission
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import GaussianRecognition, SkipMLP

from .oracles import random_covariance, random_natural

NUM_CLUSTERS, DIM, NUM_FEATURES, NUM_WORKERS = 3, 2, 4, 2


def location_model(batch: Batch, scale: Callable[[Batch], Any] | None = None) -> None:
    """A Pyro model of a user's: one mean of all features.

    ``scale`` gives the items of a batch other weights than their own.
    """
    mean = pyro.sample("mean", dist.Normal(0.0, 10.0))
    weight = batch.item_weight if scale is None else scale(batch)
    with pyro.plate("items", len(batch.items)), poutine.scale(scale=weight):
        pyro.sample("o", dist.Normal(mean, 1.0), obs=batch.features[:, 0])


def location_guide(batch: Batch) -> None:
    loc = pyro.param("loc", torch.tensor(0.5))
    scale = pyro.param("scale", torch.tensor(0.1), constraint=dist.constraints.positive)
    pyro.sample("mean", dist.Normal(loc, scale))


def some_batch(features: Tensor) -> Batch:
    """Five items, or others; six answers among four, a pair asked three times, both ways round."""
    return Batch(
        features=features,
        items=torch.arange(len(features)),
        item_weight=torch.ones(len(features)),
        left=torch.tensor([0, 2, 1, 3, 0, 1]),
        right=torch.tensor([1, 1, 2, 0, 3, 2]),
        worker=torch.tensor([0, 0, 1, 1, 0, 1]),
        label=torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0, 1.0]),
        pair_weight=torch.ones(6),
        num_paired=4,
        num_items=len(features),
        num_workers=NUM_WORKERS,
        num_answers=6,
        answers=torch.arange(6),
    )


def weighted(batch: Batch) -> Batch:
    """The batch with weights of its own for every item and every answer."""
    return dataclasses.replace(
        batch,
        item_weight=0.5 + 3 * torch.rand(len(batch.items)),
        pair_weight=0.5 + 3 * torch.rand(batch.num_pairs),
    )


def without_answers(batch: Batch) -> Batch:
    none = torch.zeros(0, dtype=torch.int64)
    return dataclasses.replace(
        batch,
        left=none,
        right=none,
        worker=none,
        label=torch.zeros(0),
        pair_weight=torch.zeros(0),
        answers=none,
        num_paired=0,
    )


def randomize(guide: MessagePassingGuide) -> None:
    """Move every global posterior somewhere else."""
    for posterior in guide.posteriors.values():
        plate = posterior.natural_parameters.shape[:-1]
        posterior.set_natural_parameters(random_natural(posterior.family, *plate))


def some_model(emission: Emission) -> SemiCrowdsourcedMixture:
    """Priors without any symmetry that could hide a mistake."""
    components = GaussianComponents(
        NUM_CLUSTERS,
        DIM,
        location=torch.tensor([0.3, -0.7]),
        concentration=0.6,
        scale=random_covariance(dim=DIM),
        degrees=3.2,
    )
    weights = DirichletWeights(NUM_CLUSTERS, 0.8)
    return SemiCrowdsourcedMixture(
        weights, components, emission, TwoCoin(NUM_WORKERS, (2.0, 1.0), (1.5, 0.7))
    )


def mixture_problem(**options: object) -> tuple[MessagePassingGuide, Batch]:
    """Features are the latents themselves."""
    guide = MessagePassingGuide(some_model(Identity()), **options)
    randomize(guide)
    return guide, some_batch(torch.randn(5, DIM) * 2)


def _deep_problem(
    emission: Emission, features: Tensor, **options: object
) -> tuple[MessagePassingGuide, Batch]:
    network = SkipMLP((NUM_FEATURES, 6, 2 * DIM))
    recognition = GaussianRecognition(network, DIM)
    guide = MessagePassingGuide(some_model(emission), recognition, **options)
    randomize(guide)
    networks = nn.ModuleList([recognition, emission])
    for parameter in networks.parameters():
        nn.init.normal_(parameter, std=0.4)
    return guide, some_batch(features)


def normal_problem(**options: object) -> tuple[MessagePassingGuide, Batch]:
    """Latents behind a network with Gaussian noise."""
    emission = NormalEmission(SkipMLP((DIM, 6, NUM_FEATURES)), NUM_FEATURES)
    return _deep_problem(emission, torch.randn(5, NUM_FEATURES), **options)


def bernoulli_problem(**options: object) -> tuple[MessagePassingGuide, Batch]:
    """Latents behind a network with yes/no features."""
    emission = BernoulliEmission(SkipMLP((DIM, 6, NUM_FEATURES)))
    return _deep_problem(emission, torch.rand(5, NUM_FEATURES).round(), **options)
