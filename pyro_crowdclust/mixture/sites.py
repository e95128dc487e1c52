"""Functions on Pyro sites that all mixture models share."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from pyro.distributions import TorchDistribution
from torch import Tensor

from pyro_crowdclust.distributions.draws import NamedDraws, SiteDraws, named_draws
from pyro_crowdclust.distributions.priors import ConjugatePrior, sample_sites
from pyro_crowdclust.distributions.row_sites import OfItems
from pyro_crowdclust.distributions.rows import Rows
from pyro_crowdclust.emissions import Emission, has_gaps
from pyro_crowdclust.families import Moments
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.mixture.components import Components
from pyro_crowdclust.mixture.weights import Weights


def mixture_priors(model: Any) -> dict[str, ConjugatePrior]:
    """Priors of weights, components, workers' rates and the supervision's parameters, by site."""
    workers = {} if model.annotators is None else model.annotators.priors()
    mixture = {"weights": model.weights.prior, "components": model.components.prior}
    return {**mixture, **workers, **model.supervision.priors()}


def takes_gaps(components: Components, emission: Emission) -> bool:
    """Whether missing features are integrated out by the components, or filled by the emission."""
    return emission.takes_gaps and (emission.fills_gaps or components.family.takes_gaps)


def sample_mixture(model: Any) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Run the global sites of a mixture, except those of the workers.

    Returns
    -------
    ``log pi``, ``t(theta)`` of the components, and the values of all other sites but the workers'.
    """
    workers = {} if model.annotators is None else model.annotators.priors()
    sites = {name: prior for name, prior in model.priors().items() if name not in workers}
    others = sample_sites(sites)
    return model.weights.log_weights(others.pop("weights")), others.pop("components"), others


def observed_latent(
    components: Components, emission: Emission, batch: Batch
) -> Float[Tensor, "item observation"] | None:
    """The value of ``x`` where features are the latents; None without features, so that x is drawn.

    A batch of the full data, which serves every step, caches it.
    """
    features = batch.features
    if features is None:
        return None
    key = emission, components

    def observed() -> Tensor:
        return components.observe(emission.latent(features), has_gaps(emission, batch))

    return batch.once(key, observed)


def coordinates_of(emission: Emission, batch: Batch) -> Float[Tensor, "item coordinate"]:
    """x of all items, where features are the latents; a batch of the full data caches it."""
    features = batch.needed_features
    return batch.once(emission, lambda: emission.latent(features).double())


def emitted(emission: Emission, x: Tensor, z: Tensor, batch: Batch) -> TorchDistribution:
    """``p(o | x)`` of the items of a batch, by one draw from the moments of every latent.

    All latents of an item, one for every cluster that it may be in, are drawn with the same noise,
    so that they differ only by their clusters, and a sum over z has less variance.

    Parameters
    ----------
    emission
        p(o | x).
    x
        ``Moments`` of the latents: a row for every stored entry of a sparse z, otherwise one for
        every item (and every value of an enumerated z).
    z
        Assignments of the items.
    batch
        The items.
    """
    moments = Moments.of(x)
    noise = batch.noise(moments.mean.new_empty(len(batch.items), moments.mean.shape[-1]))
    rows = Rows.of(z) if z.is_sparse else None
    draw = moments.draw(noise if rows is None else noise.index_select(0, rows.item))
    # A simulation has no features, but its networks have their precision.
    like = next(emission.parameters(), batch.features)
    if like is not None:
        draw = draw.to(like.dtype)
    features = emission(draw)
    return features if rows is None else OfItems(features, rows, shared=True)


def in_feature_units(
    components: Components, emission: Emission, draws: Mapping[str, SiteDraws]
) -> dict[str, SiteDraws]:
    """Draws in which components on features are in the units of the data, not of the fit."""
    if not emission.observes_latent:
        return {**draws}
    site = draws["components"]
    units = emission.units(components.num_features)
    if units is None:
        return {**draws}
    value = components.in_units(site.value, *units)
    return {**draws, "components": dataclasses.replace(site, value=value)}


def describe_mixture(
    weights: Weights, draws: Mapping[str, SiteDraws], dim: str = "cluster"
) -> dict[str, dict[str, NamedDraws]]:
    """Draws of weights and components under the names that diagnostics give them.

    If theta is a single tensor, it is called ``component``, or ``component_parameter`` where an
    axis has the name ``component``.
    """
    log_weights = [weights.log_weights(site) for site in draws["weights"].statistics]
    components = named_draws("component", draws["components"], (dim, "dim", "dim_other"))
    if dim in components:
        components = {f"{dim}_parameter": components[dim]}
    return {
        "weights": {"weights": NamedDraws(torch.stack(log_weights).exp(), (dim,))},
        "components": components,
    }


def describe_regression(
    draws: Mapping[str, SiteDraws], of: str, column: str
) -> dict[str, dict[str, NamedDraws]]:
    """Draws of coefficients and intercept of each class or cluster, under these axes."""
    phi = draws["coefficients"].value
    named = {
        "coefficients": NamedDraws(phi[..., :-1], (of, column)),
        "intercept": NamedDraws(phi[..., -1], (of,)),
    }
    return {"coefficients": named}
