"""The choice of the items that most answers connect."""

from __future__ import annotations

import heapq

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData


def most_asked(data: CrowdData, max_items: int) -> Bool[Tensor, " item"]:
    """Mask of at most ``max_items`` items with many answers, or pages, among themselves.

    While there are too many items, one with the fewest answers about it and another of those that
    are left is left out (Charikar 2000). Then those next to it have fewer, so that connected items
    stay where all have equally many; a random part of them would share few answers.

    Parameters
    ----------
    data
        Items, and answers about pairs or sorted pages.
    max_items
        Maximum number of items. Items without answers about other items never count.

    Examples
    --------
    >>> ring = {"left": [0, 4, 2, 1, 5, 3], "right": [4, 2, 0, 5, 3, 1]}
    >>> pairs = ring | {"worker": ["a"] * 6, "label": [1] * 6}
    >>> most_asked(CrowdData(torch.zeros(7, 1), pairs), max_items=4)
    tensor([False,  True, False,  True, False,  True, False])
    """
    item, question = _questions(data)
    sizes = torch.bincount(question)
    shared = sizes[question] > 1
    item, question = item[shared], question[shared]
    counts = torch.bincount(item, minlength=data.num_items)
    excess = int((counts > 0).sum()) - max_items
    if excess <= 0:
        return counts > 0
    of_item = question[item.argsort(stable=True)].tolist()
    ends = counts.cumsum(0)
    slices = list(map(slice, (ends - counts).tolist(), ends.tolist()))
    # The last item of a question is found by the sum of those that are left.
    last = torch.zeros_like(sizes).index_add(0, question, item).tolist()
    left, count = sizes.tolist(), counts.tolist()
    queue = [(number, one) for one, number in enumerate(count) if number > 0]
    heapq.heapify(queue)
    while excess > 0:
        number, one = heapq.heappop(queue)
        if number != count[one]:  # it has fewer by now
            continue
        excess -= 1
        for each in of_item[slices[one]]:
            left[each] -= 1
            last[each] -= one
            if left[each] == 1:
                count[last[each]] -= 1
                heapq.heappush(queue, (count[last[each]], last[each]))
        count[one] = 0
    return torch.tensor(count) > 0


def _questions(data: CrowdData) -> tuple[Int[Tensor, " row"], Int[Tensor, " row"]]:
    """Items and what was asked about them, a pair or a page, row by row."""
    if data.placements is not None:
        return data.placements.item, data.placements.page
    if data.answers is None:
        nothing = torch.empty(0, dtype=torch.int64)
        return nothing, nothing
    number = torch.arange(data.num_pairs)
    return torch.cat([data.answers.left, data.answers.right]), number.repeat(2)
