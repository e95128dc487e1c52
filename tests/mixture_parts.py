"""Every part that a mixture can be built from, by name: tests cross these tables.

A new part is tested with all others by a row here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import torch
from pyro import poutine

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.batches import full_batch
from pyro_crowdclust.emissions import BernoulliEmission, Identity, NormalEmission
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.messages import LocalSolver
from pyro_crowdclust.mixture import (
    BernoulliComponents,
    CategoricalComponents,
    DiagonalGaussianComponents,
    DirichletWeights,
    GaussianComponents,
    MixedComponents,
    MultinomialComponents,
    PitmanYorWeights,
    PoissonComponents,
    StickBreakingWeights,
)
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import GaussianRecognition, SkipMLP
from pyro_crowdclust.simulation import simulate_pages

CLUSTERS, ITEMS, DIM, FEATURES, WORKERS = 4, 50, 2, 5, 2

WEIGHTS = {
    "dirichlet": lambda: DirichletWeights(CLUSTERS, 1.0),
    "stick-breaking": lambda: StickBreakingWeights(CLUSTERS, 2.0),
    "pitman-yor": lambda: PitmanYorWeights(CLUSTERS, 1.0, 0.3),
}

COMPONENTS = {
    "gaussian": lambda: GaussianComponents(CLUSTERS, DIM),
    "diagonal gaussian": lambda: DiagonalGaussianComponents(CLUSTERS, DIM, degrees=3.0),
    "categorical": lambda: CategoricalComponents(CLUSTERS, (3, 2, 4)),
    "multinomial": lambda: MultinomialComponents(CLUSTERS, 6, length=20),
    "bernoulli": lambda: BernoulliComponents(CLUSTERS, 6),
    "poisson": lambda: PoissonComponents(CLUSTERS, 3),
    "mixed": lambda: MixedComponents(
        [GaussianComponents(CLUSTERS, 1), PoissonComponents(CLUSTERS, 1)], columns=[[1], [0]]
    ),
}


class Supervision(NamedTuple):
    """How people help: parts of the model, and what the data hold beside the features.

    Attributes
    ----------
    parts
        Arguments of the model.
    helped
        The data with help, from features and true clusters.
    """

    parts: Callable[[], dict]
    helped: Callable[[torch.Tensor, torch.Tensor], CrowdData]


def _answered(features: torch.Tensor, clusters: torch.Tensor) -> CrowdData:
    rates = [0.9] * WORKERS
    some = range(ITEMS // 2)
    pairs = simulate_pages(
        clusters, rates, rates, pages_per_worker=2, page_size=8, items=some, seed=0
    )
    return CrowdData(features, pairs)


SUPERVISION = {
    "nobody": Supervision(dict, lambda features, clusters: CrowdData(features)),
    "two-coin workers": Supervision(lambda: {"annotators": TwoCoin(WORKERS)}, _answered),
}

EMISSIONS = {
    "identity": Identity,
    "bernoulli": lambda: BernoulliEmission(SkipMLP((DIM, 6, FEATURES))),
    "normal": lambda: NormalEmission(SkipMLP((DIM, 6, FEATURES)), FEATURES),
}

ON_LATENTS = [name for name, make in COMPONENTS.items() if make().latent_family is not None]


def mixture(
    weights: str, components: str, emission: str = "identity", supervision: str = "nobody"
) -> SemiCrowdsourcedMixture:
    """A model of the parts with these names."""
    parts = SUPERVISION[supervision].parts()
    return SemiCrowdsourcedMixture(
        WEIGHTS[weights](), COMPONENTS[components](), EMISSIONS[emission](), **parts
    )


def guide_of(model: SemiCrowdsourcedMixture) -> MessagePassingGuide:
    """Its guide, with as many rounds of messages as the local fixed point takes."""
    recognition = None
    if not model.emission.observes_latent:
        recognition = GaussianRecognition(SkipMLP((FEATURES, 6, 2 * DIM)), DIM)
    return MessagePassingGuide(model, recognition, solver=LocalSolver(exchanges=40, damping=0.5))


def simulated(
    model: SemiCrowdsourcedMixture, num_items: int = ITEMS
) -> tuple[torch.Tensor, torch.Tensor]:
    """Features and clusters drawn from the model's prior."""
    empty = full_batch(CrowdData(torch.zeros(num_items, 1)))
    empty = dataclasses.replace(empty, features=None, num_workers=WORKERS)
    trace = poutine.trace(model).get_trace(empty)
    clusters = trace.nodes["_RETURN"]["value"].argmax(-1)
    if model.emission.observes_latent:
        return model.components.features(trace.nodes["x"]["value"]), clusters
    return trace.nodes["o"]["value"], clusters
