"""The consensus of many draws: one partition that represents them."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.partitions.memberships import Memberships

_ROUNDS = 10


def consensus(draws: Int[Tensor, "draw item"]) -> Int[Tensor, " item"]:
    """The partition in which every item is where it is in most draws.

    Beginning with the last draw, items move to the cluster in which they are most often, or become
    alone if they are more often in none of the clusters than in any single one. After each round
    the clusters of every draw are matched anew. The cost is linear in the size of the draws,
    whatever the number of clusters.

    Examples
    --------
    >>> consensus(torch.tensor([[0, 0, 1, 1], [0, 0, 1, 1], [0, 1, 1, 1]]))
    tensor([0, 0, 1, 1])
    """
    labels = torch.unique(draws[-1], return_inverse=True)[1]
    for _ in range(_ROUNDS):
        found, _ = Memberships.of(draws, labels).likeliest()
        alone = found < 0
        found[alone] = int(labels.max()) + 1 + torch.arange(int(alone.sum()))
        found = torch.unique(found, return_inverse=True)[1]
        if bool((found == labels).all()):
            break
        labels = found
    return _by_first_item(labels)


def _by_first_item(labels: Int[Tensor, " item"]) -> Int[Tensor, " item"]:
    """The same clusters, from the largest to the smallest, ties in the order of their items."""
    sizes = torch.bincount(labels)
    first = torch.full_like(sizes, len(labels)).scatter_reduce(
        0, labels, torch.arange(len(labels)), "amin"
    )
    order = (first - sizes * (len(labels) + 1)).argsort()
    return order.argsort()[labels]
