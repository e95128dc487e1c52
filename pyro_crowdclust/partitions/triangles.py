"""A test of whether people were asked about random pairs, from the pairs alone."""

from __future__ import annotations

import numpy as np

from pyro_crowdclust.partitions.asked_pairs import AskedPairs

# Pairs are not random if they have significantly more than this many times the triangles of random
# pairs, at this level.
_TIMES, _LEVEL = 2.0, 0.01


def closes_triangles(pairs: AskedPairs) -> bool:
    """Whether two items that were compared with the same third one were often compared themselves.

    For N items that were compared with k_i others each, random pairs have

        C = (mean k^2 - mean k)^2 / (N mean(k)^3)

    closed triangles for every two pairs that share an item (Newman 2010, 13.4). There are more if
    pairs were chosen because their items look similar, as two that look like a third one do, too,
    or if they were chosen within blocks.

    Parameters
    ----------
    pairs
        The pairs that were compared.

    Examples
    --------
    >>> import torch
    >>> random = torch.randint(60, (300, 2), generator=torch.Generator().manual_seed(0))
    >>> closes_triangles(AskedPairs.of(random[random[:, 0] != random[:, 1]], 60))
    False
    >>> blocks = torch.combinations(torch.arange(6)) + 6 * torch.arange(10).reshape(-1, 1, 1)
    >>> closes_triangles(AskedPairs.of(blocks.flatten(0, 1), 60))
    True
    """
    from scipy import sparse
    from scipy.stats import poisson

    ends = pairs.items.numpy()
    both = np.concatenate([ends, ends[:, ::-1]]).T
    graph = sparse.coo_array((np.ones(both.shape[1]), both), (pairs.num_items,) * 2).tocsr()
    compared = np.asarray(graph.sum(1)).ravel()
    compared = compared[compared > 0]
    triangles = (graph @ graph).multiply(graph).sum() / 6
    more = np.square(compared).mean() - compared.mean()
    share = more**2 / (len(compared) * compared.mean() ** 3)
    by_chance = share * (compared * (compared - 1)).sum() / 6
    return bool(poisson.sf(triangles - 1, _TIMES * by_chance) < _LEVEL)
