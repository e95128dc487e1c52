"""Small crowds, and models and guides to fit to them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.annotators import GradedPairs, LapsingWorkers, TwoCoin
from pyro_crowdclust.emissions import Identity, NormalEmission
from pyro_crowdclust.guides import AmortizedGuide, MessagePassingGuide
from pyro_crowdclust.inference import LossTerms, RecognitionTerm
from pyro_crowdclust.minibatches import AnswerSampling
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents, Ownership
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import AmortizedRecognition, GaussianRecognition, SkipMLP
from pyro_crowdclust.simulation import simulate_grades, simulate_pages
from pyro_crowdclust.supervision import Supervision

NUM_CLUSTERS, NUM_FEATURES, DIM, NUM_WORKERS = 3, 4, 2, 3


def blobs(num_items: int = 60, seed: int = 0, spread: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Features and true clusters of three round clouds."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(NUM_CLUSTERS, size=num_items)
    centers = 3 * rng.standard_normal((NUM_CLUSTERS, NUM_FEATURES))
    return centers[labels] + spread * rng.standard_normal((num_items, NUM_FEATURES)), labels


def crowd(num_items: int = 60, seed: int = 0, item_ids: list | None = None) -> CrowdData:
    """Blobs, of which the first third was sorted on pages by three good workers."""
    features, labels = blobs(num_items, seed)
    rates = [0.95] * NUM_WORKERS
    pairs = simulate_pages(
        labels,
        rates,
        rates,
        pages_per_worker=2,
        page_size=6,
        items=np.arange(num_items // 3),
        seed=seed,
    )
    if item_ids is not None:
        ids = np.asarray(item_ids)
        pairs = pairs.assign(left=ids[pairs["left"]], right=ids[pairs["right"]])
    return CrowdData(features, pairs, item_ids=item_ids)


def crowd_of_all_kinds() -> CrowdData:
    """The same crowd with known classes, class labels and a link."""
    return CrowdData(
        crowd().features,
        crowd().pairs,
        known=["a", None, "b"] * 20,
        labels={"item": [3, 4], "worker": [0, 2], "label": ["x", "y"]},
        must_link={"left": [0], "right": [7]},
    )


def plain_mixture(
    num_workers: int | None = NUM_WORKERS, supervision: Supervision | None = None
) -> SemiCrowdsourcedMixture:
    """Gaussians on the features themselves."""
    return SemiCrowdsourcedMixture(
        DirichletWeights(NUM_CLUSTERS, 1.0),
        GaussianComponents(NUM_CLUSTERS, NUM_FEATURES),
        Identity(),
        None if num_workers is None else TwoCoin(num_workers),
        supervision,
    )


def deep_mixture(emission: nn.Module | None = None) -> SemiCrowdsourcedMixture:
    """Gaussians on latents behind a network."""
    return SemiCrowdsourcedMixture(
        DirichletWeights(NUM_CLUSTERS, 1.0),
        GaussianComponents(NUM_CLUSTERS, DIM),
        emission or NormalEmission(SkipMLP((DIM, 5, NUM_FEATURES)), NUM_FEATURES),
        TwoCoin(NUM_WORKERS),
    )


def message_passing_pair() -> tuple[SemiCrowdsourcedMixture, MessagePassingGuide]:
    """BayesSCDC."""
    model = deep_mixture()
    recognition = GaussianRecognition(SkipMLP((NUM_FEATURES, 5, 2 * DIM)), DIM)
    return model, MessagePassingGuide(model, recognition, recognition_term=RecognitionTerm(2.0))


def classifier_pair() -> tuple[SemiCrowdsourcedMixture, MessagePassingGuide]:
    """BayesSCDC with a network of its own for z."""
    model = deep_mixture()
    recognition = GaussianRecognition(
        SkipMLP((NUM_FEATURES, 5, 2 * DIM)),
        DIM,
        classifier=SkipMLP((NUM_FEATURES, 5, NUM_CLUSTERS)),
    )
    return model, MessagePassingGuide(model, recognition, recognition_term=RecognitionTerm(2.0))


def amortized_pair() -> tuple[SemiCrowdsourcedMixture, AmortizedGuide]:
    """SCDC."""
    model = deep_mixture()
    recognition = AmortizedRecognition((NUM_FEATURES, 5, 5), DIM, NUM_CLUSTERS)
    return model, AmortizedGuide(model, recognition, recognition_term=RecognitionTerm(2.0))


def plain_pair(
    supervision: Supervision | None = None,
) -> tuple[SemiCrowdsourcedMixture, MessagePassingGuide]:
    """No network at all."""
    model = plain_mixture(supervision=supervision)
    return model, MessagePassingGuide(model)


def owned_pair() -> tuple[SemiCrowdsourcedMixture, MessagePassingGuide]:
    """Clusters that own components, two for every cluster of the blobs."""
    number = 2 * NUM_CLUSTERS
    model = SemiCrowdsourcedMixture(
        DirichletWeights(number, 1.0),
        GaussianComponents(number, NUM_FEATURES),
        Identity(),
        TwoCoin(NUM_WORKERS),
        ownership=Ownership(number),
    )
    return model, MessagePassingGuide(model)


def graded_crowd(num_items: int = 60) -> CrowdData:
    """Blobs, two thirds of which were compared on pages, by grades from 1 to 3 or "can't tell"."""
    features, labels = blobs(num_items)
    pairs = simulate_grades(
        labels,
        [3.0] * NUM_WORKERS,
        [[-0.7, 0.7]] * NUM_WORKERS,
        doubt=0.2,
        pairs_per_worker=num_items,
        items=np.arange(2 * num_items // 3),
        seed=0,
    )
    return CrowdData(features, pairs.assign(page=np.arange(len(pairs)) // 10), grades=[1, 2, 3])


def graded_pair(lapsing: bool = False) -> tuple[SemiCrowdsourcedMixture, MessagePassingGuide]:
    """Gaussians on features, and workers who grade, maybe not looking at some pages."""
    plain, graded = plain_mixture(), GradedPairs(NUM_WORKERS, 3)
    annotators = LapsingWorkers(graded) if lapsing else graded
    model = SemiCrowdsourcedMixture(plain.weights, plain.components, plain.emission, annotators)
    return model, MessagePassingGuide(model)


def in_double(make: Callable[[], Any]) -> Any:
    """What is made outside of a test, where float64 is not the default."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return make()
    finally:
        torch.set_default_dtype(before)


def quiet_fit(model: Any, guide: Any, data: CrowdData, **options: Any) -> Fitted:
    """A short fit in double precision, the dtype of the tests' networks."""
    sampling = AnswerSampling(answers_per_step=30)
    defaults = {
        **{"epochs": 2, "batch_size": 20},
        **{"answer_sampling": sampling, "dtype": torch.float64},
    }
    return fit(model, guide, data, progress=False, **(defaults | options))


def added_to_loss(run: Any, *arguments: Any) -> torch.Tensor:
    """What model and guide add to the training loss while they run."""
    with LossTerms() as terms:
        run(*arguments)
    return terms.total()


fit_plain = partial(quiet_fit, batch_size=None, step_size=1.0)
