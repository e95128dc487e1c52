"""Checks that a guide can infer latents of new items, not only of the items of the fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.errors import first_line
from pyro_crowdclust.inference.enumeration import trace_of, trace_sites
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.making import constant_weights, item_batches
from pyro_crowdclust.protocols import (
    FittedModel,
    SupportsInfer,
    SupportsPartition,
    name_of,
    unwrapped,
)

# Number of items on which a guide is tested.
_ROWS = 50
_REMEDY = (
    "it cannot infer those of new items. Let the guide compute such latents from batch.features, "
    "or enumerate discrete ones (guides.EnumeratedGuide), and fit again"
)


def check_new_items(result: FittedModel, items: CrowdData) -> None:
    """Raise a ``ValueError`` if a plain guide has a row of parameters for every item of the fit.

    The guide is tested with the same features at other positions: a guide that computes latents
    from features returns the same values. Guides with ``infer`` need no test.
    """
    guide: Any = getattr(unwrapped(result.guide), "of_globals", result.guide)
    number = min(_ROWS, result.data.num_items - 1)  # so that it differs from that of the fit
    if isinstance(unwrapped(guide), SupportsInfer | SupportsPartition) or number < 1:
        return
    positions = torch.arange(number)
    batch = next(item_batches(items, number, class_labels=True))
    batch = replace(
        batch,
        features=None if batch.features is None else batch.features[positions % len(batch.items)],
        items=positions,
        item_weight=constant_weights(number, 1.0),
        num_items=result.data.num_items,
        num_workers=result.data.num_workers,
    ).to(result.device, result.dtype)
    moved = replace(batch, items=batch.items + 1)
    try:
        here, there = _latents(result, guide, batch), _latents(result, guide, moved)
    except (ValueError, RuntimeError, IndexError) as error:
        raise ValueError(
            f"the guide {name_of(guide)} has latents of the {result.data.num_items} items of the "
            f"fit only ({first_line(error)}): {_REMEDY}"
        ) from error
    of_model = _latents(result, result.model, batch)
    known = [
        name
        for name, (value, log_prob) in here.items()
        if not all(map(torch.equal, there[name], (value, log_prob)))
        or (name in of_model and of_model[name][0].shape != value.shape)
    ]
    if known:
        site = next((name for name in known if name in of_model), known[0])
        raise ValueError(
            f"the guide {name_of(guide)} has {site!r} of the items of the fit only, by their "
            f"positions: {_REMEDY}"
        )


def _latents(result: FittedModel, part: Any, batch: Batch) -> dict[str, tuple[Tensor, Tensor]]:
    """Values of latent sites and their log-densities, with the same random numbers every time."""
    with result.inside():
        return {
            name: (site["value"], site["fn"].log_prob(site["value"]))
            for name, site in trace_sites(trace_of(part, batch)).items()
            if not site["is_observed"]
        }
