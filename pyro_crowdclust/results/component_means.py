"""Means of the features in every component, under the features' names and in their units."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.data.columns import Columns
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.emissions import OF_SEVERAL, Emission
from pyro_crowdclust.mixture.components import Components
from pyro_crowdclust.protocols import part_of


def component_means(
    model: Any,
    location: Float[Tensor, "component column"],
    data: CrowdData,
    feature_shape: Sequence[int] | None,
) -> tuple[Float[Tensor, "component feature_column"], list[Hashable]]:
    """Means of the features in their own units, and the label of each column.

    Parameters
    ----------
    model
        A model with components on features, or on latents.
    location
        Means of the components, as in their ``summary``.
    data
        The data of the fit, with the names of features and categories, if they have names.
    feature_shape
        Shape of the features of one item.

    Raises
    ------
    ValueError
        If the model has no components.
    """
    names: Sequence[Hashable] = range(math.prod(feature_shape or ()))
    columns = None
    if data.feature_names is not None:
        names, columns = data.feature_names.tolist(), data.columns
    components = part_of(model, "components", Components)
    if components is None:
        raise ValueError(
            f"the model {type(model).__name__} has no components to describe: describe the items "
            "of every cluster instead, as in features.groupby(result.assignments).describe()"
        )
    emission: Any = part_of(model, "emission", Emission)
    if emission is None or not emission.observes_latent:
        return location, components.column_labels()
    found = emission.in_feature_units(location, components.summary_features)
    own = emission.own_features(len(names))
    labels = components.column_labels(emission.coordinate_names(names))
    features = [own[column] for column in components.summary_features]
    if columns is not None:
        labels = _with_levels(labels, features, columns)
    # Directions are translated back to the features that they combine.
    directions = features.count(OF_SEVERAL)
    if directions:
        of_directions = sorted({*range(len(names))} - {*own})
        labels = [names[feature] for feature in of_directions] + labels[directions:]
    return found, labels


def _with_levels(
    labels: list[Hashable], features: Sequence[int], columns: Columns
) -> list[Hashable]:
    """Labels in which categories are named as in the table."""
    found = []
    for place, label in enumerate(labels):
        feature = features[place]
        if feature == OF_SEVERAL:
            found.append(label)
            continue
        levels = columns.levels[feature]
        if levels is not None and columns.kinds[feature] == "category":
            code = place - features.index(feature)
            label = f"{columns.labels()[feature]}={levels[code]}"
        found.append(label)
    return found
