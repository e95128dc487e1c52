"""Checks of mixtures: that their parts fit together, and that the data fit the parts."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from pyro.distributions import Distribution
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.emissions import BernoulliEmission, Emission, NormalEmission
from pyro_crowdclust.errors import check_object, check_suits
from pyro_crowdclust.mixture.components import Components
from pyro_crowdclust.mixture.weights import Weights
from pyro_crowdclust.networks.perceptrons import SkipNetwork
from pyro_crowdclust.protocols import SupportsItems, SupportsSites
from pyro_crowdclust.supervision.supervision import Supervision

# Features are read this many rows at a time, so that a memory map is never loaded whole.
_CHECKED_ROWS = 4096


def check_parts(
    weights: Weights,
    components: Components,
    supervision: Supervision,
    emission: Emission | None = None,
    sums_out: bool = False,
    annotators: object = None,
) -> None:
    """Raise a ``ValueError`` unless the parts of a mixture fit together.

    Parameters
    ----------
    weights, components, supervision
        They must have the same number of clusters.
    emission
        The emission, if there is one: behind a network the components must be normal.
    sums_out
        Whether z is summed out, which is possible only on observed features, and only if the
        supervision does not couple items.
    annotators
        The model of the workers, or None.
    """
    check_object("weights", weights, Weights)
    check_object("components", components, Components)
    check_object("supervision", supervision)
    check_object("annotators", annotators)
    if annotators is not None and not isinstance(annotators, SupportsSites | SupportsItems):
        check_suits(
            "a mixture",
            "annotators of pairs, such as TwoCoin",
            annotators,
            ["answer", "log_likelihood_ratio"],
            "those of class labels go with DawidSkene, MomResp or LogResp",
        )
    if weights.num_clusters != components.num_clusters:
        raise ValueError(
            f"weights have {weights.num_clusters} clusters, components "
            f"{components.num_clusters}: give both the same number"
        )
    of_clusters = supervision.num_clusters
    if of_clusters not in (None, weights.num_clusters):
        raise ValueError(
            f"weights have {weights.num_clusters} clusters, the supervision {of_clusters}: "
            "give both the same number"
        )
    on_latents = emission is not None and not emission.observes_latent
    if on_latents and (components.latent_family is None or not components.is_linear):
        raise ValueError(
            f"these {type(components).__name__} are on the features themselves, but with this "
            "emission the components are on latents, which must be normal, since the emission's "
            "network learns from reparameterized draws of them: use GaussianComponents or "
            "DiagonalGaussianComponents without tails, or the emission Identity()"
        )
    if sums_out and (on_latents or supervision.couples_items):
        raise ValueError(
            "assignments can be summed out only of mixtures on observed features whose "
            "supervision does not couple items: use the emission Identity() and e.g. "
            "ClassTable, or leave out sum_out_assignments"
        )


def check_number_of_features(
    data: CrowdData, num_features: int, coordinates: Callable[[Tensor], Tensor] | None = None
) -> None:
    """Raise a ``ValueError`` unless every item has ``num_features`` features (or coordinates)."""
    if data.features is None:
        raise ValueError(
            "the data have no features, but this model needs them: pass features, or use a model "
            "of labels alone"
        )
    found = math.prod(data.features.shape[1:])
    if coordinates is not None:
        found = coordinates(data.rows(torch.zeros(1, dtype=torch.int64))).shape[1]
    if found != num_features:
        raise ValueError(
            f"the model was built for {num_features} features, but every item has {found}: build "
            f"it for {found}"
        )


@torch.no_grad()
def check_features(components: Components, emission: Emission, data: CrowdData) -> None:
    """Raise a ``ValueError`` unless components and emission can have produced the features."""
    shape, size = _item_shape(data), components.num_features
    if not shape:
        raise ValueError("features have no second axis: pass a column, features[:, None]")
    given = math.prod(shape)
    if emission.observes_latent:
        given = emission.latent_size(given)
    if emission.observes_latent and given != size:
        raise ValueError(
            f"the components have dimension {size}, but every item has {given} features, which "
            f"they describe directly: build {type(components).__name__} for {given} features"
        )
    parameter = next(emission.parameters(), None)
    if parameter is not None:
        _check_emitted_shape(emission, torch.zeros(2, size).to(parameter), shape)
    elif not emission.observes_latent:
        # A network that is not a submodule of the emission may have another precision.
        with suppress(RuntimeError):
            _check_distribution(emission(torch.zeros(2, size)))
    for row, features in data.row_blocks(_CHECKED_ROWS):
        emission.check(features, first_row=row)
        if emission.observes_latent:
            components.check(emission.latent(features), first_row=row)


def _check_emitted_shape(emission: Emission, latent: Tensor, shape: tuple[int, ...]) -> None:
    try:
        made = emission(latent)
    except RuntimeError as error:
        raise ValueError(
            f"the emission does not take latents of dimension {latent.shape[1]}, which the "
            f"components have: {error}"
        ) from error
    _check_distribution(made)
    emitted = tuple(made.event_shape)
    if emitted != shape:
        raise ValueError(
            f"the emission makes features of shape {list(emitted)}, but those of the data "
            f"have shape {list(shape)}: change its output size or event_shape (for a "
            "distribution of your own, call to_event)"
        )


def _check_distribution(made: Any) -> None:
    if not isinstance(made, Distribution):
        raise ValueError(
            f"the emission returns a {type(made).__name__} of {type(made).__module__}, but must "
            "return a Pyro distribution over features, such as "
            "pyro.distributions.Normal(mean, 1.0).to_event(1)"
        )


@torch.no_grad()
def check_features_of_clusters(
    emission: BernoulliEmission | NormalEmission, data: CrowdData
) -> None:
    """Raise a ``ValueError`` unless an emission that depends on the cluster fits the features."""
    given = math.prod(_item_shape(data))
    # User-defined emissions and networks may lack these.
    made = getattr(getattr(emission, "network", None), "num_outputs", given)
    if made != given:
        raise ValueError(
            f"the emission makes {made} features, but every item has {given}: change the "
            "output size of its network"
        )
    for row, features in data.row_blocks(_CHECKED_ROWS):
        emission.check(features, first_row=row)


def check_emission_of_clusters(emission: Any, num_clusters: int) -> None:
    """Raise a ``ValueError`` unless an emission, and its network, takes the cluster as input."""
    try:
        inspect.signature(emission.forward).bind("latent", "rows")
    except TypeError:
        raise ValueError(
            f"the emission {type(emission).__name__} does not take the cluster as input, but "
            "features depend on it here: give it a forward(latent, rows) that passes the rows on "
            "to a CodedMLP or ClusterMLP; rows.cluster is the cluster of every latent"
        ) from None
    check_network_of_clusters(getattr(emission, "network", None), num_clusters)


def check_network_of_clusters(network: Any, num_clusters: int) -> None:
    """Raise a ``ValueError`` unless the network takes one of this many clusters as input."""
    if isinstance(network, SkipNetwork):
        raise ValueError(
            f"the network {type(network).__name__} does not take the cluster as input, but the "
            "layers below the top one depend on it here: use CodedMLP or ClusterMLP"
        )
    found = getattr(network, "num_clusters", num_clusters)
    if found != num_clusters:
        raise ValueError(
            f"the network {type(network).__name__} is built for {found} clusters, but the model "
            f"has {num_clusters}: give both the same number"
        )


def check_support(components: Components, data: CrowdData) -> None:
    """Raise a ``ValueError`` unless the features lie in the support of the components."""
    for row, features in data.row_blocks(_CHECKED_ROWS):
        components.check(features.flatten(1), first_row=row)


def _item_shape(data: CrowdData) -> tuple[int, ...]:
    """The shape of an item's features."""
    if data.features is None:
        raise ValueError("the data have no features, but this model needs them: pass features")
    return tuple(data.features.shape[1:])
