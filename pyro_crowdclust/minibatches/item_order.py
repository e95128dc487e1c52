"""The items without answers, and random orders of them.

For stored features, items are shuffled within windows of the features; see ``stored_features.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.stored_features import StoredFeatures


class Others:
    """The items without answers, numbered in order; positions are computed when needed.

    Examples
    --------
    >>> pairs = {"left": [3], "right": [1], "worker": ["a"], "label": [1]}
    >>> others = Others(CrowdData(torch.eye(5), pairs))
    >>> len(others), others.all().tolist()
    (3, [0, 2, 4])
    """

    def __init__(self, data: CrowdData) -> None:
        annotated = data.annotated_items
        # The number of items without answers before each item with answers.
        self._before = annotated - torch.arange(len(annotated))
        self._count = data.num_items - len(annotated)

    def __len__(self) -> int:
        return self._count

    def take(self, numbers: Int[Tensor, " other"]) -> Int[Tensor, " other"]:
        """Positions in the data of the items with these numbers."""
        return numbers + torch.searchsorted(self._before, numbers, right=True)

    def all(self) -> Int[Tensor, " other"]:
        """Positions in the data of all of them."""
        return self.take(torch.arange(len(self)))

    def inside(self, first: Tensor, last: Tensor) -> Int[Tensor, " other"]:
        """Positions of those from ``first`` up to before ``last``, for each pair of bounds."""
        annotated = self._before + torch.arange(len(self._before))
        lows, highs = (row - torch.searchsorted(annotated, row) for row in (first, last))
        bounds = zip(lows.tolist(), highs.tolist(), strict=True)
        return self.take(torch.cat([torch.arange(low, high) for low, high in bounds]))

    def shuffled_parts(
        self, data: CrowdData, count: int, generator: torch.Generator
    ) -> Iterator[Int[Tensor, " other"]]:
        """Positions of all of them in random order, in ``count`` parts of nearly equal size."""
        if not isinstance(data.features, StoredFeatures):
            order = torch.randperm(len(self), generator=generator)
            yield from self.take(order).tensor_split(count)
            return
        waiting = self._by_windows(data.features, generator)
        ready = torch.empty(0, dtype=torch.int64)
        size, larger = divmod(len(self), count)
        for number in range(count):
            wanted = size + (number < larger)
            while len(ready) < wanted:
                ready = torch.cat([ready, next(waiting)])
            yield ready[:wanted]
            ready = ready[wanted:]

    def _by_windows(
        self, features: StoredFeatures, generator: torch.Generator
    ) -> Iterator[Int[Tensor, " other"]]:
        """Positions in random order within one window of the features after the other."""
        for first, last in features.windows(generator):
            held = self.inside(first, last)
            yield held[torch.randperm(len(held), generator=generator)]


def random_items(data: CrowdData, size: int, generator: torch.Generator) -> Int[Tensor, " item"]:
    """Sorted positions of ``size`` random items, or of all if there are fewer.

    For stored features they come from one random window of chunks.

    Examples
    --------
    >>> data = CrowdData(torch.eye(4))
    >>> len(random_items(data, 3, torch.Generator().manual_seed(0)))
    3
    """
    if isinstance(data.features, StoredFeatures):
        first, last = next(iter(data.features.windows(generator)))
        bounds = zip(first.tolist(), last.tolist(), strict=True)
        items = torch.cat([torch.arange(low, high) for low, high in bounds])
        return items[torch.randperm(len(items), generator=generator)[:size]].sort().values
    return torch.randperm(data.num_items, generator=generator)[:size].sort().values
