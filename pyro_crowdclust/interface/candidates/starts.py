"""Starts of mixtures beside the usual one: columns of numbers only, and known labels."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data.imputation import median_imputed
from pyro_crowdclust.interface.about_data import (
    feature_shape,
    is_of_features_alone,
    known_labels_alone,
)
from pyro_crowdclust.interface.candidates.coordinates import sample_of
from pyro_crowdclust.interface.recipe import Recipe
from pyro_crowdclust.starts import (
    LabeledStart,
    LearnedPriorStart,
    PrincipalComponentStart,
    k_means,
)

# All items count alike, as they do in the fit; half of the components are left to other kinds.
_AT_LABELS = LearnedPriorStart(LabeledStart(unlabeled_weight=1.0, shrinkage=None, share=0.5))


def other_starts(recipe: Recipe, data: CrowdData) -> list[Callable[..., None]]:
    """Starts of a mixture to try in addition to its usual one, at most one for any data.

    Parameters
    ----------
    recipe
        The recipe of the mixture.
    data
        Its data, before rounding steps are filled by noise.
    """
    return starts_of_numbers(recipe, data) + starts_at_labels(recipe, data)


def starts_at_labels(recipe: Recipe, data: CrowdData) -> list[Callable[..., None]]:
    """A start at the known labels, if they are the only supervision.

    A start that ignores the labels may put several classes into one component. A few labels move
    only their own items out of it again, so that the fit ends there.

    Parameters
    ----------
    recipe
        The recipe of a mixture.
    data
        Its data.

    Returns
    -------
    A list with the start, empty if there are no labels, if there are also answers or links, or if
    the mixture has a single component.
    """
    model: Any = recipe.model
    return [_AT_LABELS] if known_labels_alone(data) and model.num_clusters > 1 else []


def starts_of_numbers(recipe: Recipe, data: CrowdData) -> list[Callable[..., None]]:
    """A start from the columns that are neither yes/no nor categories, if there are also these.

    k-means splits along a column of two values first, as no variance is left on either side,
    whether or not clusters differ in it. Without supervision nothing joins the halves of a cluster
    again, so that this start is tried in addition to the usual one.

    Parameters
    ----------
    recipe
        The recipe of a mixture.
    data
        Its data, before rounding steps are filled by noise.

    Returns
    -------
    A list with the start, empty if there is supervision, or if no column would be left out.
    """
    model: Any = recipe.model
    if not is_of_features_alone(data) or model.emission.mixes_features:
        return []
    own = model.emission.own_features(math.prod(feature_shape(data)))
    is_kind = _are_kinds(data)[list(own)]
    if not bool(is_kind.any()) or bool(is_kind.all()):
        return []
    return [PrincipalComponentStart(partition=partial(_by_numbers, model, is_kind))]


def _are_kinds(data: CrowdData) -> Bool[Tensor, " feature"]:
    """Which columns are categories, or hold at most two values."""
    columns = sample_of(data)
    have_two = [len(column[~column.isnan()].unique()) <= 2 for column in columns.mT]
    kinds = ["real"] * len(have_two) if data.columns is None else data.columns.kinds
    pairs = zip(kinds, have_two, strict=True)
    return torch.tensor([kind == "category" or two for kind, two in pairs])


def _by_numbers(
    model: Any,
    is_kind: Bool[Tensor, " coordinate"],
    features: Float[Tensor, "item feature"],
    num_clusters: int,
    generator: torch.Generator,
) -> Float[Tensor, "item cluster"]:
    """k-means with all items equal in the columns of yes/no and categories."""
    points = median_imputed(model.emission.latent(features))
    points = torch.where(is_kind, points[0], points)
    near = model.components.coordinates(points)
    found = k_means(near, num_clusters, generator, num_starts=10)
    labels = torch.as_tensor(found.labels_, dtype=torch.int64)
    return nn.functional.one_hot(labels, num_clusters).double()
