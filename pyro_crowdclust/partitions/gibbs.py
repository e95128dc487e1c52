"""Loops over items one after the other, each of which depends on all before: compiled by Numba.

Their callers say what they draw, and make the arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit

from pyro_crowdclust.families import SMALLEST_PROBABILITY


def _compiled(function: Callable) -> Callable:
    """The function, compiled when it is first called, and kept on disk where there is a place."""
    try:
        return njit(cache=True)(function)
    except RuntimeError:  # no folder can be written to
        return njit(function)


class Clusters(NamedTuple):
    """What is kept of the clusters of some items while these move.

    Attributes
    ----------
    sizes, part_of
        Of every cluster, its size and part.
    total, number_of
        Of every part, ``sum_k exp log_join(n_k)`` and the number of its clusters.
    free
        The clusters that there are not.
    num_free, num_clusters
        How many these are, and how many clusters there are; arrays of one.
    """

    sizes: np.ndarray
    part_of: np.ndarray
    total: np.ndarray
    number_of: np.ndarray
    free: np.ndarray
    num_free: np.ndarray
    num_clusters: np.ndarray


class Chain(NamedTuple):
    """A partition, and how its items are visited.

    Attributes
    ----------
    order
        Items that were compared with anybody, as they are visited.
    z, part
        Cluster of every item, which changes in place, and its part.
    clusters
        Those of these, which change in place.
    chance
        Two uniform numbers for every item.
    """

    order: np.ndarray
    z: np.ndarray
    part: np.ndarray
    clusters: Clusters
    chance: np.ndarray


class Weights(NamedTuple):
    """What a prior says of clusters.

    Attributes
    ----------
    log_join, join
        By size, ``log_join`` and its exponential, 0 of an empty cluster.
    closure
        That of the prior.
    joins_strangers
        Whether an item may join a cluster without evidence.
    log_alone, fewest
        Of so many clusters and more, those beside which an item may be alone.
    """

    log_join: np.ndarray
    join: np.ndarray
    closure: float
    joins_strangers: bool
    log_alone: np.ndarray
    fewest: int


class Comparisons(NamedTuple):
    """First place of every item's edges, their other ends, and what each adds to the score."""

    first: np.ndarray
    others: np.ndarray
    evidence: np.ndarray


class SortedItems(NamedTuple):
    """Items on sorted pages.

    Attributes
    ----------
    first, page_of, group_of
        First place of every item's placements, their pages and groups.
    first_on, item_on, group_on
        First place of every page's placements, their items and groups.
    each, spread
        Of every page ``c / G_p`` and c.
    """

    first: np.ndarray
    page_of: np.ndarray
    group_of: np.ndarray
    first_on: np.ndarray
    item_on: np.ndarray
    group_on: np.ndarray
    each: np.ndarray
    spread: np.ndarray


class Offers(NamedTuple):
    """What items could choose; all is written.

    Attributes
    ----------
    num_offered, chosen
        By visit, how many clusters the item could join, and the size of that which it joined.
    offered, compared
        Of all of them, one after the other, the sizes and how many items of each it was compared
        with.
    """

    num_offered: np.ndarray
    chosen: np.ndarray
    offered: np.ndarray
    compared: np.ndarray


class ClusterEvidence(NamedTuple):
    """Evidence for the clusters that the visited item may join.

    Attributes
    ----------
    said, is_seen
        By cluster, its score, and whether there is evidence.
    seen
        Those with evidence, first.
    """

    said: np.ndarray
    is_seen: np.ndarray
    seen: np.ndarray


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
def clusters_of(z: np.ndarray, asked: np.ndarray, part: np.ndarray, join: np.ndarray) -> Clusters:
    """The clusters of some items.

    Parameters
    ----------
    z
        Cluster of every item, numbered without gaps.
    asked
        Items with evidence.
    part
        Of every item.
    join
        ``exp log_join``, 0 of an empty cluster.
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
    return Clusters(sizes, part_of, total, number_of, free, num_free, num_clusters)


@_compiled
def _no_evidence(chain: Chain) -> ClusterEvidence:
    most = len(chain.clusters.sizes)
    is_seen = np.zeros(most, dtype=np.bool_)
    return ClusterEvidence(np.zeros(most), is_seen, np.empty(most + 1, dtype=np.int64))


@_compiled
def _taken_out(visit: int, chain: Chain, weights: Weights) -> int:
    """The item that is visited, out of its cluster; -1 at too few or too many clusters."""
    clusters = chain.clusters
    # One fewer when the item is out.
    number = clusters.num_clusters[0]
    if not weights.fewest < number < weights.fewest + len(weights.log_alone):
        return -1
    i = chain.order[visit]
    k, p, sizes = chain.z[i], chain.part[i], clusters.sizes
    clusters.total[p] += weights.join[sizes[k] - 1] - weights.join[sizes[k]]
    sizes[k] -= 1
    if sizes[k] == 0:
        clusters.free[clusters.num_free[0]] = k
        clusters.num_free[0] += 1
        clusters.num_clusters[0] -= 1
        clusters.number_of[p] -= 1
    return i


@_compiled
def _put_in(i: int, num_seen: int, heard: ClusterEvidence, chain: Chain, weights: Weights) -> None:
    """An item joins a cluster: one of those with evidence, or another.

    Those with evidence are no longer seen.
    """
    sizes, part_of, total, number_of, free, num_free, num_clusters = chain.clusters
    said, is_seen, seen = heard
    p, chance = chain.part[i], chain.chance[:, i]
    scores = np.empty(max(num_seen, number_of[p]) + 2)
    scores[0], scores[1] = weights.log_alone[num_clusters[0] - weights.fewest], -math.inf
    known = 0.0
    for place in range(num_seen):
        size = sizes[seen[place]]
        known += weights.join[size]
        scores[place + 2] = said[seen[place]] + weights.log_join[size] + weights.closure * size
    if weights.joins_strangers and num_seen < number_of[p]:
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
                scores[number] = weights.log_join[sizes[other]]
                number += 1
        k = seen[num_seen + place_of(scores, number, chance[1])]
    else:
        k = seen[place - 2]
    for one in range(num_seen):
        is_seen[seen[one]] = False
    total[p] += weights.join[sizes[k] + 1] - weights.join[sizes[k]]
    sizes[k] += 1
    chain.z[i] = k


@_compiled
def visit_items(
    pairs: Comparisons, offers: Offers, begin: int, chain: Chain, weights: Weights
) -> int:
    """Draw the clusters of items in some order, from a place on, as ``sweep`` says.

    Parameters
    ----------
    pairs
        Evidence about items.
    offers
        What they could choose, which is written.
    begin
        The first place of the order to visit.
    chain
        The partition, which changes in place.
    weights
        What the prior says.

    Returns
    -------
    The next place to visit: the number of items, unless there came to be fewer or more clusters
    than ``log_alone`` is of.
    """
    sizes = chain.clusters.sizes
    heard, edges_to = _no_evidence(chain), np.zeros(len(sizes), dtype=np.int64)
    end = offers.num_offered[:begin].sum()
    for visit in range(begin, len(chain.order)):
        i = _taken_out(visit, chain, weights)
        if i < 0:
            return visit
        num_seen = 0
        for edge in range(pairs.first[i], pairs.first[i + 1]):
            k = chain.z[pairs.others[edge]]
            if not heard.is_seen[k]:
                heard.is_seen[k], heard.said[k], edges_to[k], heard.seen[num_seen] = True, 0.0, 0, k
                num_seen += 1
            heard.said[k] += pairs.evidence[edge]
            edges_to[k] += 1
        for place in range(num_seen):
            offers.offered[end + place] = sizes[heard.seen[place]]
            offers.compared[end + place] = edges_to[heard.seen[place]]
        _put_in(i, num_seen, heard, chain, weights)
        offers.num_offered[visit], offers.chosen[visit] = num_seen, sizes[chain.z[i]] - 1
        end += num_seen
    return len(chain.order)


@_compiled
def visit_paged_items(pages: SortedItems, begin: int, chain: Chain, weights: Weights) -> int:
    """The same of items on sorted pages, as ``sweep_pages`` says.

    Parameters
    ----------
    pages
        The pages.
    begin, chain, weights
        As of ``visit_items``.

    Returns
    -------
    As of ``visit_items``.
    """
    first, page_of, group_of, first_on, item_on, group_on, each, spread = pages
    most = len(chain.clusters.sizes)
    heard, held, on_page = _no_evidence(chain), np.zeros(most), np.zeros(most)
    for visit in range(begin, len(chain.order)):
        i = _taken_out(visit, chain, weights)
        if i < 0:
            return visit
        num_seen = 0
        for placement in range(first[i], first[i + 1]):
            page, group = page_of[placement], group_of[placement]
            for other in range(first_on[page], first_on[page + 1]):
                if item_on[other] != i:
                    k = chain.z[item_on[other]]
                    if not heard.is_seen[k]:
                        heard.is_seen[k], heard.said[k], heard.seen[num_seen] = True, 0.0, k
                        num_seen += 1
                    on_page[k] += 1
                    held[k] += group_on[other] == group
            # Beside a cluster that has nothing on the page.
            silent = math.log(each[page] / spread[page])
            for place in range(num_seen):
                k = heard.seen[place]
                if on_page[k]:
                    found = (held[k] + each[page]) / (on_page[k] + spread[page])
                    heard.said[k] += math.log(found) - silent
                    on_page[k] = held[k] = 0.0
        _put_in(i, num_seen, heard, chain, weights)
    return len(chain.order)


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
