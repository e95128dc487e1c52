"""Functions that make batches: of all data, of items with answers, of items alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.known_labels import Links, Neighbors
from pyro_crowdclust.data.pair_answers import Answers
from pyro_crowdclust.errors import check_whole, needed
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.item_order import Others
from pyro_crowdclust.minibatches.pages import BatchPages
from pyro_crowdclust.minibatches.processes import Ranks
from pyro_crowdclust.minibatches.selection import Selection


def full_batch(data: CrowdData, ranks: Ranks | None = None) -> Batch:
    """All items and all answers with weight 1; items in answers come first.

    With ``ranks``, the part of this process.

    Examples
    --------
    >>> pairs = {"left": [3], "right": [1], "worker": ["a"], "label": [1]}
    >>> batch = full_batch(CrowdData(torch.eye(4), pairs))
    >>> batch.items.tolist(), batch.left.tolist(), batch.right.tolist()
    ([1, 3, 0, 2], [1], [0])
    """
    ones, every = constant_weights(data.num_items, 1.0), every_answer(data)
    selection = Selection.of(data, data.annotated_items, Others(data).all(), ones, every)
    return with_supervision(data, shared_batch(data, selection, ranks or Ranks()))


def answered_batch(data: CrowdData) -> Batch | None:
    """All items with answers, known labels or links, and all of these, with weight 1.

    None if there are no such items.

    Examples
    --------
    >>> pairs = {"left": [3], "right": [1], "worker": ["a"], "label": [1]}
    >>> answered_batch(CrowdData(torch.eye(4), pairs)).items.tolist()
    [1, 3]
    """
    items, supervised = data.annotated_items, data.supervised_items
    if not len(items) + len(supervised):
        return None
    others = supervised[~torch.isin(supervised, items)]
    weight = constant_weights(len(items) + len(others), 1.0)
    selection = Selection.of(data, items, others, weight, every_answer(data))
    return with_supervision(data, _make_batch(data, selection))


def needed_batch(data: CrowdData) -> Batch:
    """``answered_batch`` of data with answers; a ``ValueError`` without any."""
    return needed(answered_batch(data), "answers", "pairs or placements")


def item_batches(
    data: CrowdData,
    batch_size: int,
    items: Int[Tensor, " item"] | None = None,
    class_labels: bool = False,
) -> Iterator[Batch]:
    """Items without answers about pairs, known labels and links, ``batch_size`` at a time.

    Parameters
    ----------
    data
        The data of the items.
    batch_size
        The largest number of items in a batch.
    items
        Positions of the items; None takes all, in order.
    class_labels
        Whether batches have the class labels that workers gave to the items.

    Raises
    ------
    ValueError
        For a ``batch_size`` below 1.
    """
    check_whole("batch_size", batch_size, least=1)
    if items is None:
        starts = range(0, data.num_items, batch_size)
        parts = (torch.arange(at, min(at + batch_size, data.num_items)) for at in starts)
    else:
        parts = items.split(batch_size)
    selections = (
        Selection.of(data, no_codes(), part, constant_weights(len(part), 1.0), no_codes())
        for part in parts
    )
    batches = (_make_batch(data, selection) for selection in selections)
    if class_labels:
        return batches
    return (dataclasses.replace(batch, class_labels=None) for batch in batches)


def items_alone(data: CrowdData, items: Int[Tensor, " item"], class_labels: bool = False) -> Batch:
    """``item_batches`` of some items, at least one, as a single batch."""
    (batch,) = item_batches(data, len(items), items, class_labels)
    return batch


def shared_batch(data: CrowdData, selection: Selection, ranks: Ranks) -> Batch:
    """The part of a batch for this process; the whole batch if there is only one process."""
    if ranks.count > 1:
        selection = selection.share(ranks.rank, ranks.count)
    return _make_batch(data, selection)


def _make_batch(data: CrowdData, selection: Selection) -> Batch:
    """The batch of the selected items and answers, whose data are read here."""
    answers = data.answers or Answers(no_codes(), no_codes(), no_codes(), constant_weights(0, 1.0))
    items, chosen, pages = selection.items, selection.answers, None
    left, right = selection.left, selection.right
    if data.placements is not None:
        scale = selection.pair_weight
        if len(chosen):
            pages = BatchPages.of(data.placements, chosen, selection.paired, scale)
        left = right = chosen = no_codes()
    return Batch(
        features=None if data.features is None else data.rows(items),
        items=items,
        item_weight=selection.item_weight,
        left=left,
        right=right,
        worker=answers.worker.index_select(0, chosen),
        label=answers.label.index_select(0, chosen),
        pair_weight=constant_weights(len(chosen), selection.pair_weight),
        num_paired=len(selection.paired),
        num_items=data.num_items,
        num_workers=data.num_workers,
        num_answers=data.num_pairs,
        answers=chosen,
        class_labels=None if data.class_labels is None else data.class_labels.of_items(items),
        part=selection.part,
        pages=pages,
        has_gaps=data.has_gaps,
        page=None if answers.page is None else answers.page.index_select(0, chosen),
        likeness=data.likeness if len(chosen) else None,
    )


def with_supervision(
    data: CrowdData, batch: Batch, pair_weight: float = 1.0, message_scale: float = 1.0
) -> Batch:
    """The batch with the labels of its items and the links among them."""
    if data.known is None and data.links is None:
        return batch
    known, counts = None, no_codes()
    if data.known is not None:
        known = data.known.index_select(0, batch.items)
        counts = torch.bincount(data.known[data.known >= 0], minlength=data.num_known_classes)
    linked, links = torch.zeros(len(batch.items), dtype=torch.bool), None
    if data.links is not None:
        row_of_item = torch.full((data.num_items,), -1)
        row_of_item[batch.items] = torch.arange(len(batch.items))
        left, right = row_of_item[data.links.left], row_of_item[data.links.right]
        for rows in (left, right):
            linked[rows[rows >= 0]] = True
        inside = (left >= 0) & (right >= 0)
        links = Links(left[inside], right[inside], data.links.must[inside])
    supervised = linked if known is None else linked | (known >= 0)
    complete = int(supervised.sum()) == len(data.supervised_items)
    neighbors = Neighbors(counts, linked, links, pair_weight, message_scale, complete)
    return dataclasses.replace(batch, known=known, neighbors=neighbors)


def every_answer(data: CrowdData) -> Int[Tensor, " answer"]:
    """Positions of all answers about pairs, or of all pages if the data are sorted pages."""
    return torch.arange(data.num_pairs if data.placements is None else data.placements.num_pages)


def no_codes() -> Int[Tensor, " 0"]:
    """An empty tensor of codes of items, answers or workers."""
    return torch.empty(0, dtype=torch.int64)


def constant_weights(count: int, value: float) -> Float[Tensor, " count"]:
    """``count`` equal weights, in float64."""
    return torch.full((count,), value, dtype=torch.float64)
