"""q(z) and latents, batch by batch: of training items given all answers, and of new items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.new_items import read_new_items
from pyro_crowdclust.distributions.summaries import LocalPosterior
from pyro_crowdclust.emissions import Emission
from pyro_crowdclust.inference.enumeration import enumerated_inference
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.making import answered_batch, item_batches
from pyro_crowdclust.protocols import FittedModel, SupportsInfer, SupportsPartition, part_of
from pyro_crowdclust.results.guide_verbs import with_verb
from pyro_crowdclust.results.item_latents import check_new_items
from pyro_crowdclust.training.argument_checks import check_gaps
from pyro_crowdclust.training.trainer import PREDICTION_ROWS


def infer(
    result: FittedModel, batches: Iterator[Batch]
) -> tuple[Float[Tensor, "item component"], Float[Tensor, "item dim"] | None]:
    """q(z) and the means of q(x), in the order of the batches."""
    of_batch: Callable[[Batch], LocalPosterior] | None = None
    if isinstance(result.guide, SupportsInfer):
        of_batch = result.guide.infer
    assignments, latents = [], []
    with result.inside():
        for batch in batches:
            batch = batch.to(result.device, result.dtype)
            if of_batch is None and result.feature_shape is not None:
                _ = batch.needed_features  # raises an error if a loaded fit has no features
            of_batch = of_batch or enumerated_inference(result.model, result.guide, batch)
            local = (of_batch or with_verb(result.guide, SupportsInfer, "infer").infer)(batch)
            assignments.append(local.assignments.double().cpu())
            if local.latent is not None:
                latents.append(local.latent.mean.cpu())
    return torch.cat(assignments), torch.cat(latents) if latents else None


def can_infer(result: FittedModel) -> bool:
    """Whether the guide infers q(z), or the model enumerates z, as tested on a batch."""
    if isinstance(result.guide, SupportsInfer):
        return True
    if isinstance(result.guide, SupportsPartition):  # it draws partitions and has no q(z)
        return False
    batch = next(item_batches(result.data, min(2, result.data.num_items), class_labels=True))
    if batch.features is None and result.feature_shape is not None:
        return False  # loaded without the features that the model needs
    with result.inside():
        batch = batch.to(result.device, result.dtype)
        return enumerated_inference(result.model, result.guide, batch) is not None


def _training_batches(
    data: CrowdData, items: Int[Tensor, " item"] | None = None
) -> Iterator[Batch]:
    # Networks take most of the memory, and items without features need none.
    rows = PREDICTION_ROWS if data.features is not None else 16 * PREDICTION_ROWS
    return item_batches(data, rows, items, class_labels=True)


def infer_training_items(
    result: FittedModel,
) -> tuple[Float[Tensor, "item component"], Float[Tensor, "item dim"] | None]:
    """q(z) and latent means of the training items, given all answers."""
    data = result.data
    answered = answered_batch(data)
    if answered is None:
        return infer(result, _training_batches(data))
    asked = torch.zeros(data.num_items, dtype=torch.bool)
    asked[answered.items] = True
    others = (~asked).nonzero().squeeze(1)
    batches = _training_batches(data, others) if len(others) else iter(())
    assignments, latents = infer(result, chain([answered], batches))
    place = torch.cat([answered.items, others]).argsort()
    return assignments[place], None if latents is None else latents[place]


def infer_by_features(result: FittedModel) -> Float[Tensor, "item component"] | None:
    """q(z) of the training items given their features, but not the answers about them.

    Items without answers keep the q(z) that is inferred given all answers. None if the fit has no
    features, or they are missing, as in a loaded fit.
    """
    data = result.data
    if data.features is None or not isinstance(result.guide, SupportsInfer):
        return None
    answered = answered_batch(data)
    if data.class_labels is not None:
        return infer(result, item_batches(data, PREDICTION_ROWS))[0]
    alone = result.component_probabilities
    if answered is not None:
        items = answered.items.sort().values
        alone[items] = infer(result, item_batches(data, PREDICTION_ROWS, items))[0]
    return alone


def training_parts(
    result: FittedModel,
) -> Iterator[tuple[pd.Index, Float[Tensor, "item component"]]]:
    """Ids and q(z) of the training items given all answers, a few thousand items at a time."""
    answered = answered_batch(result.data)
    if answered is not None:
        order = answered.items.argsort()
        items, with_answers = answered.items[order], infer(result, iter([answered]))[0][order]
    for batch in _training_batches(result.data):
        assignments = infer(result, iter([batch]))[0]
        if answered is not None:
            first, last = torch.searchsorted(items, batch.items[[0, -1]] + torch.tensor([0, 1]))
            assignments[items[first:last] - batch.items[0]] = with_answers[first:last]
        yield result.data.item_ids[batch.items.numpy()], assignments


def new_parts(
    result: FittedModel, features: Any
) -> Iterator[tuple[pd.Index, Float[Tensor, "item component"]]]:
    """Row numbers and q(z) of new items, a few thousand items at a time."""
    for batch in new_batches(result, features):
        yield pd.Index(batch.items.numpy()), infer(result, iter([batch]))[0]


def new_batches(result: FittedModel, features: Any) -> Iterator[Batch]:
    """New items in batches, with as many workers as the fit has.

    Features outside of the support of the emission are refused, as by ``fit``.
    """
    items = new_items(result, features)
    check_new_items(result, items)
    emission = part_of(result.model, "emission", Emission)

    def checked(batch: Batch) -> Batch:
        if emission is not None and not emission.observes_latent:
            emission.check(batch.needed_features, first_row=int(batch.items[0]))
        return replace(batch, num_workers=result.data.num_workers)

    return map(checked, item_batches(items, PREDICTION_ROWS))


def new_items(result: FittedModel, features: Any) -> CrowdData:
    """New items, read with the column types of the fit; their ids are their positions.

    Raises
    ------
    ValueError
        If columns of the fit are missing, or there are more or fewer numbers per item; for missing
        numbers (NaN) if the model does not integrate them out.
    """
    shape = result.feature_shape
    if shape is None and features is not None:
        raise ValueError(
            "the fit had answers but no features, so it cannot use features of new items: collect "
            "answers about these items, and call update(answers, item_ids=their ids)"
        )
    if features is None and shape is not None:
        raise ValueError("new items need features, like the items of the fit: pass features")
    new = read_new_items(features, result.data.columns, shape)
    check_gaps(result.model, new)
    found = () if new.features is None else tuple(new.features.shape[1:])
    if shape is not None and found != shape:
        raise ValueError(
            f"features of a new item have shape {list(found)}, but those of the fit have shape "
            f"{list(shape)}: pass one row per item, with the columns of the fit"
        )
    return new
