"""Recipes of candidates on given coordinates: components with learned priors, and options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import annotators_on_pages
from pyro_crowdclust.callbacks import ClassMoves, LearnedPrior, NearbyOwners, OwnershipMoves
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.files import rebuilt
from pyro_crowdclust.guides import MessagePassingGuide, PairRegressionGuide
from pyro_crowdclust.interface.about_data import feature_shape, supervision_of
from pyro_crowdclust.interface.candidates.columns import components_for
from pyro_crowdclust.interface.candidates.coordinates import (
    sample_of,
)
from pyro_crowdclust.interface.candidates.deviating import without_deviating
from pyro_crowdclust.interface.candidates.rounding import unrounded
from pyro_crowdclust.interface.recipe import FULL_BATCH_NUMBERS, Recipe, takes_all
from pyro_crowdclust.mixture import (
    Components,
    DiagonalGaussianComponents,
    DirichletWeights,
    GaussianComponents,
    HurdleGaussianComponents,
    Ownership,
    SoftmaxRegression,
)
from pyro_crowdclust.models import PairRegression, SemiCrowdsourcedMixture
from pyro_crowdclust.protocols import part_of
from pyro_crowdclust.starts import TrustingStart
from pyro_crowdclust.training import Callback, RobbinsMonro, Stopping
from pyro_crowdclust.transforms import WithAtoms, Within

# Start of learned priors: components are expected to have a fifth of the data's variance, so that
# they neither merge into one nor keep single items.
FIRST_SCALE = 0.2
# Expected standard deviation of the scores of a regression; 2 gives probabilities from .1 to .9.
_SCORE_SD = 2.0

MINIBATCHES: dict[str, Any] = {
    "epochs": 20,
    "batch_size": 1024,
    "stopping": Stopping(tolerance=1e-3),
    "step_size": RobbinsMonro(0.5, delay=20.0),
}


def full(num_components: int, dim: int, tails: float | None = None) -> GaussianComponents:
    """Components with full covariances around a common one, and a learned distance from it."""
    degrees = dim + 2.0
    return GaussianComponents(
        num_components,
        dim,
        concentration=0.05,
        scale=FIRST_SCALE * degrees,
        degrees=degrees,
        tails=tails,
    )


def diagonal(
    num_components: int, dim: int, tails: float | None = None
) -> DiagonalGaussianComponents:
    """Components with independent features."""
    return DiagonalGaussianComponents(
        num_components, dim, concentration=0.05, scale=FIRST_SCALE * 3.0, degrees=3.0, tails=tails
    )


def hurdle(num_components: int, dim: int) -> HurdleGaussianComponents:
    """Components with independent features that have an atom."""
    return HurdleGaussianComponents(
        num_components, dim, concentration=0.05, scale=FIRST_SCALE * 3.0, degrees=3.0
    )


# Learns which components belong to one cluster. A smaller initial probability of owning oneself,
# .5, joins more components where answers say little: it was certain of two clusters on the data set
# glass.
OWNERS_LEARNED: tuple[Callback, ...] = (NearbyOwners(own=0.8, strength=5.0), OwnershipMoves())


def mixture_recipe(
    components: Callable[[int, int], Components],
    data: CrowdData,
    num_components: int,
    emission: Identity,
) -> Recipe:
    """A mixture with learned priors; with answers or links, clusters may own several components."""
    num_features = int(np.prod(feature_shape(data)))
    own = emission.own_features(num_features)
    components = components_for(data, components, hurdle, own)
    made = components(num_components, emission.latent_size(num_features))
    owns = (data.has_answers or data.links is not None) and num_components > 1
    annotators = annotators_on_pages(data) if data.has_answers else None
    supervision = supervision_of(data, num_components)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(num_components),
        made,
        emission,
        annotators,
        supervision,
        sum_out_assignments=None if annotators or supervision.couples_items else torch.float64,
        ownership=Ownership(num_components) if owns else None,
    )
    options: dict[str, Any] = {"epochs": 100, "dtype": torch.float64}
    options["stopping"] = Stopping(tolerance=1e-4)
    options |= {"batch_size": None, "step_size": 1.0} if takes_all(data, model) else MINIBATCHES
    options["callbacks"] = [LearnedPrior()]
    options["callbacks"] += OWNERS_LEARNED if owns else ()
    options["callbacks"] += [ClassMoves()] if data.has_answers and data.num_known_classes else []
    options["initialize"] = TrustingStart()
    return Recipe(model, MessagePassingGuide(model), spread_over_steps(data, emission), options)


def with_at_most(recipe: Recipe, max_clusters: int) -> Recipe:
    """The recipe with a bound on the number of clusters, if these own components."""
    ownership = part_of(recipe.model, "ownership", Ownership)
    if ownership is None:
        return recipe
    bounded = rebuilt(ownership, max_clusters=max_clusters)
    model = rebuilt(recipe.model, ownership=bounded)
    return replace(recipe, model=model, guide=MessagePassingGuide(model))


def spread_over_steps(data: CrowdData, emission: Identity) -> CrowdData:
    """The data to which mixtures are fitted: numbers with noise within their rounding steps.

    Atoms are not changed, and missing numbers are drawn if the coordinates define a distribution of
    them. Numbers outside the bounds (``Within``) do not affect the width of steps. ELBOs are of
    these data, and must be compared with others of the same data.
    """
    if isinstance(emission, Within):
        data, emission = without_deviating(data, emission.low, emission.high), emission.inner
    data = unrounded(data, emission.atoms if isinstance(emission, WithAtoms) else None)
    if not data.has_gaps or data.features_in_memory is None or not emission.mixes_features:
        return data
    rows = data.all_rows()
    filled = emission.filled_in(rows, torch.Generator().manual_seed(0))
    features = filled.reshape(rows.shape).numpy()
    return data.with_parts(features=features, num_missing=int(np.isnan(features).sum()))


def regression_recipe(data: CrowdData, num_clusters: int, emission: Identity) -> Recipe:
    """Clusters regressed on the coordinates; the guide starts from the answers.

    The expected standard deviation of the scores over the items is ``_SCORE_SD``, whatever the
    units of the coordinates: with weights of standard deviation s, it is ``s sqrt(sum_f var x_f)``.
    """
    points = emission.latent(sample_of(data))
    spread = float(points.var(0, correction=0).sum().sqrt())
    regression = SoftmaxRegression(
        num_clusters, points.shape[1], scale=_SCORE_SD / spread if spread > 0 else None
    )
    return _learned_from_answers(data, regression, emission)


def answers_recipe(data: CrowdData, num_clusters: int, emission: Identity) -> Recipe:
    """Clusters from answers only; items without answers get the clusters' shares."""
    return _learned_from_answers(data, SoftmaxRegression(num_clusters, 0, scale=1.0), emission)


def _learned_from_answers(
    data: CrowdData, regression: SoftmaxRegression, emission: Identity
) -> Recipe:
    supervision = supervision_of(data, regression.num_classes)
    annotators = annotators_on_pages(data) if data.has_answers else None
    model = PairRegression(regression, annotators, emission, supervision)
    options = {
        "epochs": 60,
        "stopping": Stopping(tolerance=1e-3),
        "dtype": torch.float64,
        "batch_size": None,
        "step_size": 0.5,
    }
    size = regression.num_classes * regression.num_features
    if len(data.annotated_items) * size > FULL_BATCH_NUMBERS and not supervision.couples_items:
        options |= MINIBATCHES
    guide = PairRegressionGuide(model, num_items=data.num_items)
    return Recipe(model, guide, data, options)
