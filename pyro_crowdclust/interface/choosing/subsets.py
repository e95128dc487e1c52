"""Subsets of the items, with their supervision, to which candidates are fitted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data import some_items
from pyro_crowdclust.interface.candidates.atoms import atoms_of
from pyro_crowdclust.interface.candidates.coordinates import deviations, is_real
from pyro_crowdclust.interface.candidates.near_copies import MAX_CLUSTERS, near_copy_groups
from pyro_crowdclust.interface.candidates.rounding import (
    first_equal,
    have_fine_steps,
    log_chance_equal,
    numbers_in,
)
from pyro_crowdclust.partitions import AskedPairs

# Copies of rows are kept if there were otherwise answers about fewer pairs than this: the answers
# could not predict each other, as 20 must be held out, and 20 be left.
_MIN_ASKED = 40
# Equal rows are treated as copies if they are less probable than this by chance.
_CHANCE = 0.05
# With this many different rows, it is no coincidence if the numbers of their copies have a common
# divisor.
_MIN_REPEATED = 10


def distinct_items(data: CrowdData) -> CrowdData:
    """The data with each row of features once, together with the supervision of all its copies.

    Components on copies of one row have densities without bound, and predicting a copy of a known
    item is no evidence about other items. Answers and links between copies are left out.

    Rows may also be equal by chance, and then all of them count. With c_j the chance that two items
    of a cluster have the same number in column j (``log_chance_equal``), the probability of at
    least O pairs of equal rows among N rows, as observed, is at most (Markov)

        N^2 / 2 prod_j c_j^(1 / 2) / O,

    and rows count as equal by chance if this is above .05. Only numbers are considered that are not
    missing, and not shared by many items (``atoms_of``). The exponent counts half of the columns,
    since some follow from others in a cluster. If every row occurs two, three or more times, as in
    a table that was joined with another, this is no coincidence, whatever the numbers. All rows
    count, too, if there are otherwise too few for answers to be predicted.
    """
    if data.features_in_memory is None:
        return data
    first_of_each = first_equal(_rows_of(data))
    once = _one_of_each(data, _first_of_repeated(first_of_each))
    if once is not data:
        first_of_each = first_equal(_rows_of(once))
    distinct = _one_of_each(once, _first_of_unlikely(once, first_of_each))
    return data if _num_asked(distinct) < _MIN_ASKED <= _num_asked(data) else distinct


def _first_of_repeated(first_of_each: Int[np.ndarray, " item"]) -> Int[np.ndarray, " item"]:
    """The first copy of each row if the whole table was repeated; else each row's own position."""
    own = np.arange(len(first_of_each))
    _, kind, number = np.unique(first_of_each, return_inverse=True, return_counts=True)
    times = np.gcd.reduce(number)
    if times < 2 or len(number) < _MIN_REPEATED:
        return own
    order = kind.argsort(kind="stable")
    # The sorted order is cut into runs of ``times`` copies; the first of each run is kept.
    first = np.empty_like(own)
    first[order] = order[own - own % times]
    return first


def _first_of_unlikely(
    data: CrowdData, first_of_each: Int[np.ndarray, " item"]
) -> Int[np.ndarray, " item"]:
    """The first row equal to each, where rows are hardly equal by chance; else the own position."""
    rows = _rows_of(data)
    number = np.unique(first_of_each, return_counts=True)[1]
    num_alike = max((number * (number - 1)).sum() / 2, 1)
    counts = ~np.isnan(rows) & (rows != atoms_of(data).numpy())
    log_chance = log_chance_equal(np.where(counts, rows, np.nan), is_real(data).numpy())
    log_alike = np.where(counts, log_chance, 0.0).sum(1) / 2
    are_copies = log_alike + np.log(len(rows) ** 2 / 2) < np.log(_CHANCE * num_alike)
    return np.where(are_copies, first_of_each, np.arange(len(rows)))


def _num_asked(data: CrowdData) -> int:
    """The number of pairs of items that have answers."""
    if data.answers is None:
        return 0
    return AskedPairs.of(data.answers.items, data.num_items).num_pairs


def without_near_copies(data: CrowdData, max_clusters: int = MAX_CLUSTERS) -> CrowdData:
    """The data with one row of every group of near-copies, with the supervision of all of them.

    Near-copies are as dependent as copies, and components would collapse on them. Rows of a group
    are close in columns with fine steps, and equal in all others. Data with gaps are not changed,
    and groups that may be clusters are kept (``near_copy_groups``).
    """
    if data.features_in_memory is None or data.has_gaps:
        return data
    rows, fine = _rows_of(data), have_fine_steps(data)
    if not fine.any():
        return data
    points = rows[:, fine]
    group = near_copy_groups((points - points.mean(0)) / deviations(points), max_clusters)
    return _one_of_each(data, first_equal(np.column_stack([group, rows[:, ~fine]])))


def _rows_of(data: CrowdData) -> Float[np.ndarray, "item column"]:
    return numbers_in(data).reshape(data.num_items, -1)


def _one_of_each(data: CrowdData, first: Int[np.ndarray, " item"]) -> CrowdData:
    """The items that are the first of their group, with the supervision of the whole group.

    If the copies have several known labels, the first one counts.
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
    """Sorted positions of ``number`` items, of which at most three quarters have supervision.

    Items with known labels come first. Then items are added along answers and links from random
    items, so that there are answers and links among them; the others are drawn from all that are
    left.

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
    max_supervised = 3 * number // 4
    if data.known is not None:
        labelled = (data.known >= 0).nonzero().squeeze(1)
        reached[labelled[order[labelled].argsort()[:max_supervised]]] = True
    pairs = [of for of in (data.answers, data.links) if of is not None]
    if pairs:
        left = torch.cat([of.left for of in pairs])
        right = torch.cat([of.right for of in pairs])
        asked = torch.cat([left, right]).unique()
        wanted = min(max_supervised, int(reached.sum()) + int((~reached[asked]).sum()))
        while (count := int(reached.sum())) < wanted:
            neighbours = torch.cat([right[reached[left]], left[reached[right]]]).unique()
            neighbours = neighbours[~reached[neighbours]]
            if not len(neighbours):
                rest = asked[~reached[asked]]
                some = 1 + wanted // 100
                neighbours = rest[torch.randperm(len(rest), generator=generator)[:some]]
            some = wanted - count
            reached[neighbours[torch.randperm(len(neighbours), generator=generator)[:some]]] = True
    order[reached] -= 1
    return order.argsort()[:number].sort().values
