"""How likely the features of items are under a fit."""

from __future__ import annotations

from dataclasses import replace

import torch

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.minibatches.making import full_batch
from pyro_crowdclust.mixture import Components
from pyro_crowdclust.protocols import SupportsFeatureWeight, part_of
from pyro_crowdclust.results.feature_weight import read_at
from pyro_crowdclust.results.fitted import Fitted


def mean_log_density(result: Fitted, new: CrowdData) -> float:
    """Mean over items of ``E_q[log p(o, x, z) - log q(x, z)] <= log p(o)``, in nats.

    It is at the posterior of weights and components, in the units of the features, with features
    that count in full. The bound is linear in the weight of the items, up to global terms, so

        (ELBO at twice the weight - ELBO at the weight) / N

    Parameters
    ----------
    result
        A fit of a mixture.
    new
        N items; only their features are used.

    Raises
    ------
    ValueError
        If the model has no components, and features no density.
    """
    if part_of(result.model, "components", Components) is None:
        raise ValueError(
            "this model regresses clusters on the features, so it has no density of features to "
            "score: give components, or compare fits by held-out answers"
        )
    if isinstance(result.guide, SupportsFeatureWeight):
        result = read_at(result, 1.0)
    data = result.data
    unknown = None if data.known is None else torch.full((new.num_items,), -1)
    batch = replace(full_batch(new), num_workers=data.num_workers, known=unknown)
    once, twice = (
        result.elbo_of(replace(batch, item_weight=weight * batch.item_weight))
        for weight in (1.0, 2.0)
    )
    per_item = (twice - once) / new.num_items
    emission = result.model.emission
    if emission.observes_latent and batch.features is not None:
        per_item += float(emission.log_volume(batch.features).mean())
    return per_item
