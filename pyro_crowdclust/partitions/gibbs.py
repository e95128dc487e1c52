"""Loops over items one after the other, each of which depends on all before: compiled by Numba.

Their callers say what they draw, and make the arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numba import njit

from pyro_crowdclust.families import SMALLEST_PROBABILITY


def _compiled(function: Callable) -> Callable:
    """The function, compiled when it is first called, and kept on disk where there is a place."""
    try:
        return njit(cache=True)(function)
    except RuntimeError:  # no folder can be written to
        return njit(function)


@_compiled
def place_of(scores: np.ndarray, number: int, chance: float) -> int:
    """One of the first so many places, with log odds the scores."""
    largest = scores[:number].max()
    total = 0.0
    for place in range(number):
        total += math.exp(scores[place] - largest)
    left = chance * total
    for place in range(number):
        left -= math.exp(scores[place] - largest)
        if left <= 0:
            return place
    return int(scores[:number].argmax())


@_compiled
def clusters_of(
    z: np.ndarray, asked: np.ndarray, part: np.ndarray, join: np.ndarray
) -> tuple[np.ndarray, ...]:
    """What is kept of the clusters of some items while these move.

    Parameters
    ----------
    z
        Cluster of every item, numbered without gaps.
    asked
        Items of which anything was said.
    part
        Of every item.
    join
        ``exp log_join``, 0 of an empty cluster.

    Returns
    -------
    By cluster, its size and part; of every part ``sum_k exp log_join(n_k)`` and the number of its
    clusters; the clusters that there are not, and in arrays of one how many these are and how many
    clusters there are.
    """
    most = len(z) + 1
    sizes, part_of = np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int64)
    for i in asked:
        sizes[z[i]] += 1
        part_of[z[i]] = part[i]
    num_parts = part.max() + 1
    total, number_of = np.zeros(num_parts), np.zeros(num_parts, dtype=np.int64)
    for k in range(most):
        if sizes[k]:
            total[part_of[k]] += join[sizes[k]]
            number_of[part_of[k]] += 1
    free = np.empty(most, dtype=np.int64)
    first_free = z.max() + 1
    for k in range(first_free, most):
        free[k - first_free] = k
    num_free, num_clusters = np.array([most - first_free]), np.array([number_of.sum()])
    return sizes, part_of, total, number_of, free, num_free, num_clusters


@_compiled
def _leave(k: int, p: int, clusters: tuple[np.ndarray, ...], join: np.ndarray) -> None:
    """An item of part p is out of cluster k."""
    sizes, _, total, number_of, free, num_free, num_clusters = clusters
    total[p] += join[sizes[k] - 1] - join[sizes[k]]
    sizes[k] -= 1
    if sizes[k] == 0:
        free[num_free[0]] = k
        num_free[0] += 1
        num_clusters[0] -= 1
        number_of[p] -= 1


@_compiled
def _joined(
    p: int,
    clusters: tuple[np.ndarray, ...],
    heard: tuple[np.ndarray, np.ndarray, int, np.ndarray],
    weights: tuple[np.ndarray, np.ndarray, float, bool],
    log_alone: np.ndarray,
    fewest: int,
    chance: np.ndarray,
) -> int:
    """The cluster that an item of part p joins: one of which something is said, or another.

    Those of which something was said are no longer seen.
    """
    sizes, part_of, total, number_of, free, num_free, num_clusters = clusters
    said, seen, num_seen, is_seen = heard
    log_join, join, closure, joins_strangers = weights
    scores = np.empty(max(num_seen, number_of[p]) + 2)
    scores[0], scores[1] = log_alone[num_clusters[0] - fewest], -math.inf
    known = 0.0
    for place in range(num_seen):
        size = sizes[seen[place]]
        known += join[size]
        scores[place + 2] = said[seen[place]] + log_join[size] + closure * size
    if joins_strangers and num_seen < number_of[p]:
        scores[1] = math.log(max(total[p] - known, SMALLEST_PROBABILITY))
    place = place_of(scores, num_seen + 2, chance[0])
    if place == 0:
        num_free[0] -= 1
        k = free[num_free[0]]
        part_of[k] = p
        num_clusters[0] += 1
        number_of[p] += 1
    elif place == 1:
        number = 0
        for other in range(len(sizes)):
            if sizes[other] and part_of[other] == p and not is_seen[other]:
                seen[num_seen + number] = other
                scores[number] = log_join[sizes[other]]
                number += 1
        k = seen[num_seen + place_of(scores, number, chance[1])]
    else:
        k = seen[place - 2]
    for one in range(num_seen):
        is_seen[seen[one]] = False
    total[p] += join[sizes[k] + 1] - join[sizes[k]]
    sizes[k] += 1
    return k


@_compiled
def visit_items(
    pairs: tuple[np.ndarray, np.ndarray, np.ndarray],
    order: np.ndarray,
    begin: int,
    z: np.ndarray,
    part: np.ndarray,
    clusters: tuple[np.ndarray, ...],
    weights: tuple[np.ndarray, np.ndarray, float, bool],
    log_alone: np.ndarray,
    fewest: int,
    chance: np.ndarray,
    choices: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
) -> int:
    """Draw the clusters of items in some order, from a place on, as ``sweep`` says.

    Parameters
    ----------
    pairs
        First place of every item's edges, their other ends, and what each adds to the score.
    order, begin
        Items that were compared with anybody, and the first place to visit.
    z, part
        Cluster of every item, which changes in place, and its part.
    clusters
        Those of these, as ``clusters_of`` has them, which change in place.
    weights
        ``log_join`` and its exponential, 0 of an empty cluster; the closure; and whether an item
        may join strangers.
    log_alone, fewest
        Of so many clusters and more, those beside which an item may be.
    chance
        Two uniform numbers for every item.
    choices
        By visit, how many clusters the item could join, and the size of that which it joined; and
        of all of them, one after the other, the sizes and how many items of each it was compared
        with. All are written.

    Returns
    -------
    The next place to visit: the number of items, unless there came to be fewer or more clusters
    than ``log_alone`` is of.
    """
    first, others, evidence = pairs
    num_offered, chosen, offered, compared = choices
    sizes, num_clusters = clusters[0], clusters[6]
    said, seen = np.zeros(len(sizes)), np.empty(len(sizes) + 1, dtype=np.int64)
    edges_to = np.zeros(len(sizes), dtype=np.int64)
    is_seen = np.zeros(len(sizes), dtype=np.bool_)
    end = num_offered[:begin].sum()
    for visit in range(begin, len(order)):
        # One fewer when the item is out.
        if not fewest < num_clusters[0] < fewest + len(log_alone):
            return visit
        i = order[visit]
        _leave(z[i], part[i], clusters, weights[1])
        num_seen = 0
        for edge in range(first[i], first[i + 1]):
            k = z[others[edge]]
            if not is_seen[k]:
                is_seen[k], said[k], edges_to[k], seen[num_seen] = True, 0.0, 0, k
                num_seen += 1
            said[k] += evidence[edge]
            edges_to[k] += 1
        for place in range(num_seen):
            offered[end + place] = sizes[seen[place]]
            compared[end + place] = edges_to[seen[place]]
        heard = said, seen, num_seen, is_seen
        z[i] = _joined(part[i], clusters, heard, weights, log_alone, fewest, chance[:, i])
        num_offered[visit], chosen[visit] = num_seen, sizes[z[i]] - 1
        end += num_seen
    return len(order)


@_compiled
def visit_paged_items(
    pages: tuple[np.ndarray, ...],
    order: np.ndarray,
    begin: int,
    z: np.ndarray,
    part: np.ndarray,
    clusters: tuple[np.ndarray, ...],
    weights: tuple[np.ndarray, np.ndarray, float, bool],
    log_alone: np.ndarray,
    fewest: int,
    chance: np.ndarray,
) -> int:
    """The same of items on sorted pages, as ``sweep_pages`` says.

    Parameters
    ----------
    pages
        First place of every item's placements, their pages and groups; first place of every page's
        placements, their items and groups; and of every page ``c / G_p`` and c.
    order, begin, z, part, clusters, weights, log_alone, fewest, chance
        As of ``visit_items``.

    Returns
    -------
    As of ``visit_items``.
    """
    first, page_of, group_of, first_on, item_on, group_on, each, spread = pages
    sizes, num_clusters = clusters[0], clusters[6]
    said, seen = np.zeros(len(sizes)), np.empty(len(sizes) + 1, dtype=np.int64)
    is_seen = np.zeros(len(sizes), dtype=np.bool_)
    held, on_page = np.zeros(len(sizes)), np.zeros(len(sizes))
    for visit in range(begin, len(order)):
        if not fewest < num_clusters[0] < fewest + len(log_alone):
            return visit
        i = order[visit]
        _leave(z[i], part[i], clusters, weights[1])
        num_seen = 0
        for placement in range(first[i], first[i + 1]):
            page, group = page_of[placement], group_of[placement]
            for other in range(first_on[page], first_on[page + 1]):
                if item_on[other] != i:
                    k = z[item_on[other]]
                    if not is_seen[k]:
                        is_seen[k], said[k], seen[num_seen] = True, 0.0, k
                        num_seen += 1
                    on_page[k] += 1
                    held[k] += group_on[other] == group
            # Beside a cluster that has nothing on the page.
            silent = math.log(each[page] / spread[page])
            for place in range(num_seen):
                k = seen[place]
                if on_page[k]:
                    found = (held[k] + each[page]) / (on_page[k] + spread[page])
                    said[k] += math.log(found) - silent
                    on_page[k] = held[k] = 0.0
        heard = said, seen, num_seen, is_seen
        z[i] = _joined(part[i], clusters, heard, weights, log_alone, fewest, chance[:, i])
    return len(order)


@_compiled
def visit_hard_items(
    order: np.ndarray,
    hard: np.ndarray,
    edges: tuple[np.ndarray, np.ndarray],
    gain: np.ndarray,
    chance: np.ndarray,
    counts: tuple[float, float],
) -> None:
    """Draw of items in some order whether each is hard, as ``sweep_hard`` says.

    Parameters
    ----------
    order
        Items that were compared with anybody.
    hard
        1 of every item that is hard; changes in place.
    edges
        First place of every item's edges, and their other ends.
    gain
        Of every edge what the pair says for the item being hard, if its other end is clear and if
        that is hard.
    chance
        The log odds of a uniform number for every item.
    counts
        Pseudo-counts of hard items and of clear ones.
    """
    first, others = edges
    num_hard = 0
    for i in order:
        num_hard += hard[i]
    for i in order:
        num_hard -= hard[i]
        log_odds = math.log((counts[0] + num_hard) / (counts[1] + len(order) - 1 - num_hard))
        for edge in range(first[i], first[i + 1]):
            log_odds += gain[edge, hard[others[edge]]]
        hard[i] = chance[i] < log_odds
        num_hard += hard[i]
