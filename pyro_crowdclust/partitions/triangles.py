"""Which pairs people were asked about: random ones or not, and whether answers test each other."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int

from pyro_crowdclust.partitions.asked_pairs import AskedPairs

# Pairs are not random if they have significantly more than this many times the triangles of random
# pairs, at this level.
_TIMES, _LEVEL = 2.0, 0.01

# Pairs whose thirds are looked up at a time.
_PAIRS = 10_000


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
    from scipy.stats import poisson

    compared = np.bincount(pairs.items.flatten().numpy())
    compared = compared[compared > 0]
    triangles = _common_neighbors(pairs).sum() / 3
    more = np.square(compared).mean() - compared.mean()
    share = more**2 / (len(compared) * compared.mean() ** 3)
    by_chance = share * (compared * (compared - 1)).sum() / 6
    return bool(poisson.sf(triangles - 1, _TIMES * by_chance) < _LEVEL)


def share_tested(pairs: AskedPairs, *, by_thirds: bool = True) -> float:
    """The share of answers that others say something about.

    Others are about the same pair, or about both of its items and the same third one. Where there
    are few such answers, whatever the clusters are, they cannot predict an answer from the others.

    Parameters
    ----------
    pairs
        The pairs that were asked about.
    by_thirds
        Whether third items count. On pages, they do not show whether the page is right.

    Examples
    --------
    >>> import torch
    >>> triangle_and_more = torch.tensor([[0, 1], [1, 2], [0, 2], [2, 3], [4, 5], [4, 5]])
    >>> share_tested(AskedPairs.of(triangle_and_more, 6))  # all but the fourth
    0.8333333333333334
    """
    tested = torch.bincount(pairs.pair, minlength=pairs.num_pairs) > 1
    if by_thirds:
        tested |= torch.from_numpy(_common_neighbors(pairs) > 0)
    return float(tested[pairs.pair].double().mean())


def _common_neighbors(pairs: AskedPairs) -> Int[np.ndarray, " pair"]:
    """The number of items that were compared with both items of every pair.

    With every pair directed to the item that was compared with more others, the items that both
    ends of a pair point to are the thirds of triangles, each of which is found once. No item points
    to more than ``(2 m)^1/2`` others for m pairs, however many it was compared with, so the time is
    ``O(m^1.5)`` (Chiba and Nishizeki 1985).
    """
    from scipy import sparse

    ends, number = pairs.items.numpy(), np.arange(pairs.num_pairs)
    compared = np.bincount(ends.ravel(), minlength=pairs.num_items)
    is_turned = compared[ends[:, 0]] > compared[ends[:, 1]]
    start, end = np.where(is_turned, ends.T[::-1], ends.T)
    # Entries are the numbers of pairs from 1 on, as 0 is none.
    directed = sparse.csr_array((number + 1, (start, end)), shape=(pairs.num_items,) * 2)
    common = np.zeros(pairs.num_pairs + 1, dtype=np.int64)
    for first in range(0, pairs.num_pairs, _PAIRS):
        some = number[first : first + _PAIRS]
        of_start, of_end = directed[start[some]], directed[end[some]]
        sides = of_start.multiply(of_end.sign()), of_end.multiply(of_start.sign())
        common[some + 1] += np.diff(sides[0].indptr)
        for side in sides:
            common += np.bincount(side.data, minlength=len(common))
    return common[1:]
