"""All partitions of a few items, the oracle of everything about partitions, and draws of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from pyro_crowdclust.partitions import AskedPairs, PartitionPrior

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


COMPLETE = complete_pairs(4)
CHAIN = AskedPairs.of(torch.tensor([[0, 1], [1, 2], [2, 3]]), num_items=4)
PARTS = AskedPairs.of(torch.tensor([[0, 2], [1, 3]]), num_items=4)
# What answers say for "same", of as many of these as there are pairs.
WEIGHTS = torch.tensor([1.5, -1.0, 0.3, 0.8, -0.4, 0.0], dtype=torch.float64)


def shares_of_partitions(
    swept: Callable, prior: PartitionPrior, pairs: AskedPairs, weights: Tensor
) -> tuple[np.ndarray, Tensor]:
    """How often chains of two kinds draw every partition of four items, and its probability."""
    every = [
        labels
        for labels in every_partition(4)
        if len(pairs.split(labels).unique()) == len(labels.unique())
    ]
    exact = torch.tensor([float(prior.log_prob(labels, pairs)) for labels in every])
    together = torch.stack([pairs.together(labels) for labels in every]).double()
    exact = (exact + weights @ together.mT).softmax(1)
    place = {tuple(labels.tolist()): number for number, labels in enumerate(every)}
    labels, counts = torch.zeros(120, 4, dtype=torch.int64), np.zeros(exact.shape)
    for turn in range(60):
        labels = swept(labels, pairs, weights.repeat(60, 1), prior)
        for chain, one in enumerate(labels.tolist() if turn >= 10 else []):
            counts[chain % 2, place[tuple(map(list(dict.fromkeys(one)).index, one))]] += 1
    return counts / counts.sum(1, keepdims=True), exact
