"""All partitions of a few items, the oracle of everything about partitions, and draws of one."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from pyro_crowdclust.partitions import AskedPairs

# Items 0 to 2 are one cluster, 3 and 4 another; 5 is with these in one draw of four, else alone.
DRAWS = torch.tensor(
    [[0, 0, 0, 1, 1, 2], [3, 3, 3, 0, 0, 0], [1, 1, 1, 2, 2, 0], [5, 5, 5, 1, 1, 0]]
)


def every_partition(num_items: int) -> Iterator[Tensor]:
    """Labels of every partition, each once, clusters numbered as they are met."""

    def extend(labels: list[int]) -> Iterator[list[int]]:
        if len(labels) == num_items:
            yield labels
            return
        for k in range(max(labels, default=-1) + 2):
            yield from extend([*labels, k])

    return (torch.tensor(labels) for labels in extend([]))


def complete_pairs(num_items: int) -> AskedPairs:
    """Every item compared with every other."""
    items = torch.combinations(torch.arange(num_items))
    return AskedPairs.of(items, num_items)
