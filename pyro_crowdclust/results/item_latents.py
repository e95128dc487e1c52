"""Whether a guide says anything of new items, or knows latents of those of the fit alone."""

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

# Rows that a guide is tried on.
_ROWS = 50
_REMEDY = (
    "it says nothing of new ones. Have the guide read such latents from batch.features, or "
    "enumerate what is discrete (guides.EnumeratedGuide), and fit anew"
)


def check_new_items(result: FittedModel, items: CrowdData) -> None:
    """Raise a ``ValueError`` if a plain guide has a row of parameters for every item of the fit.

    The same features at other positions tell: a guide that reads features says the same of them,
    and has as many rows as there are. Guides that have ``infer`` speak for themselves.
    """
    guide: Any = getattr(unwrapped(result.guide), "of_globals", result.guide)
    number = min(_ROWS, result.data.num_items - 1)  # so that it is not that of the fit
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
            f"the guide {name_of(guide)} is of the {result.data.num_items} items of the fit alone "
            f"({first_line(error)}): {_REMEDY}"
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
            f"the guide {name_of(guide)} knows {site!r} of the items of the fit alone, by their "
            f"positions: {_REMEDY}"
        )


def _latents(result: FittedModel, part: Any, batch: Batch) -> dict[str, tuple[Tensor, Tensor]]:
    """Values of latent sites and their log-densities, by the same random numbers every time."""
    with result.inside():
        return {
            name: (site["value"], site["fn"].log_prob(site["value"]))
            for name, site in trace_sites(trace_of(part, batch)).items()
            if not site["is_observed"]
        }
