"""Doubt about listed pairs that nobody was asked about, where only answers say what is the same.

A fit without features knows of two items that no answers connect what its prior says, and may be
certain that they are different. But somebody listed them, as a record linker lists what looks
alike, and of the pairs of the list that people were asked about, some are the same.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pyro_crowdclust.asking.asked import Asked
from pyro_crowdclust.asking.beliefs import Beliefs
from pyro_crowdclust.asking.information import entropy

# Pseudo-counts of pairs with the share of "same" that the fit expects.
_EXPECTED = 10.0


def doubted(
    beliefs: Beliefs, asked: Asked, items: Int[np.ndarray, "pair 2"]
) -> tuple[Beliefs, Float[np.ndarray, " pair"]]:
    """Beliefs, and the probabilities that listed pairs are the same, with this doubt.

        p' = p + (1 - p) max(0, s - E[p]) / (1 - E[p])

    of pairs that no answers connect, with s the share of "same" among the listed pairs with
    answers, shrunk towards E[p], the mean over the former pairs. Then these are the same as often
    as those that people were asked about. Of an item in n such pairs, H(z) is at least the smaller
    of log(n + 1) and half of the sum of their entropies.

    Parameters
    ----------
    beliefs, asked
        The beliefs, and earlier answers.
    items
        The items of the listed pairs.
    """
    same = beliefs.same(*items.T)
    keys, said = asked.said_same()
    among = np.isin(keys, asked.pair_keys(*items.T))
    open_pairs = _unconnected(asked, items, keys, said > 0.5)
    if not among.any() or not open_pairs.any():
        return beliefs, same
    expected = same[open_pairs].mean()
    count = (said[among] > 0.5).sum() + _EXPECTED * expected
    share = count / (among.sum() + _EXPECTED)
    more = max(share - expected, 0.0) / max(1 - expected, 1e-9)
    same = np.where(open_pairs, same + more * (1 - same), same)
    ends, number = items[open_pairs].ravel(), len(beliefs.entropies)
    doubt = np.repeat(entropy(np.stack([same, 1 - same], 1))[open_pairs], 2) / 2
    most = np.log1p(np.bincount(ends, minlength=number))
    least = np.minimum(np.bincount(ends, doubt, number), most)
    return replace(beliefs, entropies=np.maximum(beliefs.entropies, least)), same


def _unconnected(
    asked: Asked,
    items: Int[np.ndarray, "pair 2"],
    keys: Int[np.ndarray, " asked"],
    is_same: Bool[np.ndarray, " asked"],
) -> Bool[np.ndarray, " pair"]:
    """Pairs of items of which answers neither say nor imply whether they are the same.

    They imply it for two items of one group that was said to be the same, and for items of two
    groups of which some pair was compared.
    """
    number = asked.num_items
    ends = np.stack(np.divmod(keys, number))
    joined = coo_array((np.ones(is_same.sum()), ends[:, is_same]), (number, number))
    group = connected_components(joined, directed=False)[1]
    compared = asked.pair_keys(*group[ends])
    left, right = group[items].T
    return (left != right) & ~np.isin(asked.pair_keys(left, right), compared)
