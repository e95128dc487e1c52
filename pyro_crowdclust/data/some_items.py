"""Parts of data: some of the items with the answers about them, or no features."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData


def some_items(
    data: CrowdData, items: Int[Tensor, " item"], answers: Bool[Tensor, " pair"] | None = None
) -> CrowdData:
    """Some of the items, with the answers, labels and links that are about these items only.

    Workers and pages keep their codes, even those without any answer left.

    Parameters
    ----------
    data
        All items and answers.
    items
        Positions of the items to keep, sorted.
    answers
        Which answers may stay; default all.
    """
    part = data.with_parts(item_ids=data.item_ids[items.numpy()])
    if data.features is not None:
        part = part.with_parts(features=data.rows(items))
    place = torch.full((data.num_items,), -1).scatter(0, items, torch.arange(len(items)))
    if data.known is not None:
        part = part.with_parts(known=data.known[items])
    if data.links is not None:
        part = part.with_parts(links=data.links.among(place))
    if data.likeness is not None:
        part = part.with_parts(likeness=data.likeness.among(place))
    if data.placements is not None:
        part = part.with_parts(placements=data.placements.among(place))
    if data.class_labels is not None:
        part = part.with_class_labels(data.class_labels.among(place))
    if data.answers is not None:
        moved = replace(
            data.answers, left=place[data.answers.left], right=place[data.answers.right]
        )
        kept = (moved.left >= 0) & (moved.right >= 0)
        kept = kept if answers is None else kept & answers
        part = part.with_answers(moved.at(kept) if bool(kept.any()) else None)
    return part


def without_features(data: CrowdData) -> CrowdData:
    """The same items, answers, labels and links, without the features."""
    return data.with_parts(features=None, num_missing=0)
