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
from pyro_crowdclust.annotators import GradedPairs, LapsingWorkers, TwoCoin
from pyro_crowdclust.emissions import BernoulliEmission, Identity, NormalEmission
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.inference import LocalSolver
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import (
    BernoulliComponents,
    CategoricalComponents,
    DiagonalGaussianComponents,
    DirichletWeights,
    GaussianComponents,
    HurdleGaussianComponents,
    MixedComponents,
    MultinomialComponents,
    Ownership,
    PoissonComponents,
    StickBreakingWeights,
)
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import GaussianRecognition, SkipMLP
from pyro_crowdclust.simulation import simulate_grades, simulate_pages
from pyro_crowdclust.supervision import CertainLinks, ClassTable, HiddenMarkovField

CLUSTERS, ITEMS, DIM, FEATURES, WORKERS = 4, 50, 2, 5, 2

WEIGHTS = {
    "dirichlet": lambda: DirichletWeights(CLUSTERS, 1.0),
    "stick-breaking": lambda: StickBreakingWeights(CLUSTERS, 2.0),
    "sticks, discount": lambda: StickBreakingWeights(CLUSTERS, 1.0, 0.3),
}

COMPONENTS = {
    "gaussian": lambda: GaussianComponents(CLUSTERS, DIM),
    "diagonal gaussian": lambda: DiagonalGaussianComponents(CLUSTERS, DIM, degrees=3.0),
    "categorical": lambda: CategoricalComponents(CLUSTERS, (3, 2, 4)),
    "multinomial": lambda: MultinomialComponents(CLUSTERS, 6, length=20),
    "bernoulli": lambda: BernoulliComponents(CLUSTERS, 6),
    "poisson": lambda: PoissonComponents(CLUSTERS, 3),
    "hurdle": lambda: HurdleGaussianComponents(CLUSTERS, 2),
    "heavy tails": lambda: GaussianComponents(CLUSTERS, DIM, tails=3.0),
    "diagonal heavy tails": lambda: DiagonalGaussianComponents(
        CLUSTERS, DIM, degrees=3.0, tails=3.0
    ),
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


def _graded(features: torch.Tensor, clusters: torch.Tensor) -> CrowdData:
    cuts = [[-1.0, 1.0]] * WORKERS
    pairs = simulate_grades(
        clusters, [4.0] * WORKERS, cuts, doubt=0.2, pairs_per_worker=50, items=range(25), seed=0
    )
    pages = pairs.assign(page=pairs.groupby("worker").cumcount() // 10)
    return CrowdData(features, pages, grades=[1, 2, 3])


def _labelled(features: torch.Tensor, clusters: torch.Tensor, **links: dict) -> CrowdData:
    """The cluster modulo two is the label of a third of the items, and of all classes."""
    known = torch.where(torch.arange(ITEMS) % 3 == 0, clusters % 2, -1)
    known[:4] = torch.tensor([0, 1, 0, 1])
    return CrowdData(features, known=known, **links)


def _linked(features: torch.Tensor, clusters: torch.Tensor) -> CrowdData:
    links = {
        "must_link": {"left": [4, 5], "right": [7, 8]},
        "cannot_link": {"left": [10, 11], "right": [13, 14]},
    }
    return _labelled(features, clusters, **links)


def _field(**options: bool) -> dict:
    field = HiddenMarkovField(CLUSTERS, ITEMS, 0.5, **options)
    field.divergence.copy_(3 * (1 - torch.eye(CLUSTERS)))
    return {"supervision": field}


SUPERVISION = {
    "nobody": Supervision(dict, lambda features, clusters: CrowdData(features)),
    "two-coin workers": Supervision(lambda: {"annotators": TwoCoin(WORKERS)}, _answered),
    "graders who lapse, and owners": Supervision(
        lambda: {
            "annotators": LapsingWorkers(GradedPairs(WORKERS, 3)),
            "ownership": Ownership(CLUSTERS),
        },
        _graded,
    ),
    "class table": Supervision(lambda: {"supervision": ClassTable(CLUSTERS, 2)}, _labelled),
    "links, labels and owners": Supervision(
        lambda: {
            "supervision": CertainLinks(CLUSTERS, labels=ClassTable(CLUSTERS, 2)),
            "ownership": Ownership(CLUSTERS),
        },
        _linked,
    ),
    "field of labels": Supervision(_field, _labelled),
    "field of labels and links": Supervision(lambda: _field(repel_labels=True), _linked),
}

EMISSIONS = {
    "identity": Identity,
    "bernoulli": lambda: BernoulliEmission(SkipMLP((DIM, 6, FEATURES))),
    "normal": lambda: NormalEmission(SkipMLP((DIM, 6, FEATURES)), FEATURES),
}

# Those whose posterior given the assignments is in the family of the prior.
CONJUGATE = [name for name, make in COMPONENTS.items() if make().is_linear]

ON_LATENTS = [name for name in CONJUGATE if COMPONENTS[name]().latent_family is not None]


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
