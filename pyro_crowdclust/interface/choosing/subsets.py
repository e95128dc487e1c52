"""Some of the items, with what is said of them: enough to try a candidate on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data.some_items import some_items
from pyro_crowdclust.interface.candidates.atoms import atoms_of
from pyro_crowdclust.interface.candidates.coordinates import deviations, is_real
from pyro_crowdclust.interface.candidates.near_copies import MAX_CLUSTERS, near_alike
from pyro_crowdclust.interface.candidates.rounding import (
    are_fine,
    first_alike,
    log_chance_alike,
    numbers_in,
)
from pyro_crowdclust.partitions import AskedPairs

# Of answers about fewer pairs of different rows no two parts tell each other, however many they
# are: as many as must be held out and kept of answers.
_MIN_ASKED = 40
# Copies are taken for such if less likely by chance.
_CHANCE = 0.05
# Of so many different rows it is no chance that the numbers of their copies have a common divisor.
_MIN_REPEATED = 10


def distinct_items(data: CrowdData) -> CrowdData:
    """Each row of features once, with all that is said of its copies; few possible rows as ever.

    Components that sit on copies of one row have densities without bound, and to know an item is no
    help with others if it is to know its copies. Answers and links between copies are left out.

    Rows may be alike by chance, and then all count: with c_j the chance that two items of a cluster
    have the same number (``log_chance_alike``), as many of N rows as are, O pairs, would be with
    probability (Markov)

        N^2 / 2 prod_j c_j^(1 / 2) / O > .05

    of the numbers that are there, and are not those that many items have (``atoms_of``). Half of
    the columns count, since in a cluster some follow from others. Where every row is there two, or
    three, or more times as often, as in a table that was joined with another, it is no chance
    whatever the numbers. All rows count, too, where there are too few different ones for what is
    said of others to be predicted.
    """
    if data.features_in_memory is None:
        return data
    alike = first_alike(_rows_of(data))
    once = _one_of_each(data, _first_of_repeated(alike))
    if once is not data:
        alike = first_alike(_rows_of(once))
    distinct = _one_of_each(once, _first_of_unlikely(once, alike))
    return data if _num_asked(distinct) < _MIN_ASKED <= _num_asked(data) else distinct


def _first_of_repeated(alike: Int[np.ndarray, " item"]) -> Int[np.ndarray, " item"]:
    """Of a table that was repeated as a whole where each row is first; else each its own place."""
    own = np.arange(len(alike))
    _, kind, number = np.unique(alike, return_inverse=True, return_counts=True)
    times = np.gcd.reduce(number)
    if times < 2 or len(number) < _MIN_REPEATED:
        return own
    order = kind.argsort(kind="stable")
    # Every group begins at a multiple of it.
    first = np.empty_like(own)
    first[order] = order[own - own % times]
    return first


def _first_of_unlikely(
    data: CrowdData, alike: Int[np.ndarray, " item"]
) -> Int[np.ndarray, " item"]:
    """Where the first row is that is the same as each, of those that are hardly so by chance."""
    rows = _rows_of(data)
    number = np.unique(alike, return_counts=True)[1]
    num_alike = max((number * (number - 1)).sum() / 2, 1)
    tell = ~np.isnan(rows) & (rows != atoms_of(data).numpy())
    log_chance = log_chance_alike(np.where(tell, rows, np.nan), is_real(data).numpy())
    log_alike = np.where(tell, log_chance, 0.0).sum(1) / 2
    are_told_apart = log_alike + np.log(len(rows) ** 2 / 2) < np.log(_CHANCE * num_alike)
    return np.where(are_told_apart, alike, np.arange(len(rows)))


def _num_asked(data: CrowdData) -> int:
    """About how many pairs of items there are answers."""
    if data.answers is None:
        return 0
    return AskedPairs.of(data.answers.items, data.num_items).num_pairs


def unlike_items(data: CrowdData, max_clusters: int = MAX_CLUSTERS) -> CrowdData:
    """One row of every group of near-copies, with all that is said of them.

    These are as little independent of each other as copies are, and components would sit on them.
    Near are columns of fine steps, all others are the same; rows with gaps are as they are, and so
    are groups that may be clusters (``near_alike``).
    """
    if data.features_in_memory is None or data.has_gaps:
        return data
    rows, fine = _rows_of(data), are_fine(data)
    if not fine.any():
        return data
    points = rows[:, fine]
    group = near_alike((points - points.mean(0)) / deviations(points), max_clusters)
    return _one_of_each(data, first_alike(np.column_stack([group, rows[:, ~fine]])))


def _rows_of(data: CrowdData) -> Float[np.ndarray, "item column"]:
    return numbers_in(data).reshape(data.num_items, -1)


def _one_of_each(data: CrowdData, first: Int[np.ndarray, " item"]) -> CrowdData:
    """The items that are the first of their kind, with what is said about all of it.

    Of known labels that is the first, where the copies have several.
    """
    of = torch.from_numpy(first)
    kept = of.unique()
    if len(kept) == data.num_items:
        return data
    if data.placements is not None:
        data = data.with_parts(placements=data.placements.of_copies(of))
    if data.known is not None:
        known, labelled = data.known.clone(), (data.known >= 0).nonzero().squeeze(1).flip(0)
        known[of[labelled]] = data.known[labelled]
        data = data.with_parts(known=known)
    if data.links is not None:
        data = data.with_parts(links=data.links.of_copies(of))
    if data.answers is None:
        return some_items(data, kept)
    left, right = of[data.answers.left], of[data.answers.right]
    data = data.with_answers(replace(data.answers, left=left, right=right))
    return some_items(data, kept, left != right)


def connected_items(
    data: CrowdData, number: int, generator: torch.Generator
) -> Int[Tensor, " item"]:
    """Positions of so many items, at most three quarters of them for what is said of them, sorted.

    Items with a known label come first. Then these grow along answers and links from items at
    random, so that there are some between them; the others are drawn from all that are left.

    Examples
    --------
    >>> pairs = {"left": [0, 8], "right": [9, 4], "worker": ["a", "a"], "label": [1, 1]}
    >>> items = connected_items(CrowdData(torch.eye(10), pairs), 4, torch.Generator())
    >>> bool({0, 9} <= set(items.tolist()) or {4, 8} <= set(items.tolist()))
    True
    """
    order = torch.rand(data.num_items, generator=generator)
    if data.placements is not None:
        order[data.annotated_items] -= 1
    reached = torch.zeros(data.num_items, dtype=torch.bool)
    most = 3 * number // 4
    if data.known is not None:
        labelled = (data.known >= 0).nonzero().squeeze(1)
        reached[labelled[order[labelled].argsort()[:most]]] = True
    pairs = [of for of in (data.answers, data.links) if of is not None]
    if pairs:
        left = torch.cat([of.left for of in pairs])
        right = torch.cat([of.right for of in pairs])
        asked = torch.cat([left, right]).unique()
        wanted = min(most, int(reached.sum()) + int((~reached[asked]).sum()))
        while (count := int(reached.sum())) < wanted:
            beside = torch.cat([right[reached[left]], left[reached[right]]]).unique()
            beside = beside[~reached[beside]]
            if not len(beside):
                rest = asked[~reached[asked]]
                some = 1 + wanted // 100
                beside = rest[torch.randperm(len(rest), generator=generator)[:some]]
            some = wanted - count
            reached[beside[torch.randperm(len(beside), generator=generator)[:some]]] = True
    order[reached] -= 1
    return order.argsort()[:number].sort().values
