"""All partitions of a few items: the oracle of everything about partitions."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from pyro_crowdclust.partitions import AskedPairs


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
