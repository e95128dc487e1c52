"""Gibbs loops over items, compiled by Numba since each visit depends on all earlier ones.

See ``sweep``, ``sweep_pages`` and ``sweep_hard`` for what they draw; these also make the arrays.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pyro_crowdclust.families import SMALLEST_PROBABILITY
from pyro_crowdclust.partitions.compiling import compiled


class ClusterTotals(NamedTuple):
    """Running totals about the clusters while items move between them.

    A part is a connected component of the graph of pairs.

    Attributes
    ----------
    sizes, part_of
        Size and part of every cluster.
    total, number_of
        ``sum_k exp log_join(n_k)`` and number of clusters of every part.
    free
        Numbers of clusters that are not in use.
    num_free
        How many numbers are free; an array with one element.
    """

    sizes: np.ndarray
    part_of: np.ndarray
    total: np.ndarray
    number_of: np.ndarray
    free: np.ndarray
    num_free: np.ndarray


class Chain(NamedTuple):
    """A partition, and how its items are visited.

    Attributes
    ----------
    order
        Items that were compared with others, in the order of the visits.
    z, part
        Cluster of every item, which changes in place, and its part.
    clusters
        The clusters, which change in place.
    chance
        Two uniform random numbers for every item.
    """

    order: np.ndarray
    z: np.ndarray
    part: np.ndarray
    clusters: ClusterTotals
    chance: np.ndarray


class PartitionWeights(NamedTuple):
    """The weights of a prior of partitions.

    Attributes
    ----------
    log_join, join
        ``log_join`` and its exponential by cluster size, where the latter is 0 for size 0.
    closure
        ``closure`` of the prior.
    joins_strangers
        Whether an item may join a cluster without evidence.
    log_alone, row_of, fewest
        ``log_alone`` of an item of part p: row ``row_of[p]``, for ``fewest[p]`` other clusters of
        the part, and for one more each.
    """

    log_join: np.ndarray
    join: np.ndarray
    closure: float
    joins_strangers: bool
    log_alone: np.ndarray
    row_of: np.ndarray
    fewest: np.ndarray


class Comparisons(NamedTuple):
    """Where the edges of every item begin, their other ends, and what each adds to the score."""

    first: np.ndarray
    others: np.ndarray
    evidence: np.ndarray


class SortedItems(NamedTuple):
    """Items on sorted pages.

    Attributes
    ----------
    first, page_of, group_of
        Placements sorted by item: where those of every item begin, their pages and groups.
    first_on, item_on, group_on
        Placements sorted by page: where those of every page begin, their items and groups.
    each, spread
        ``c / G_p`` and c of every page.
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
    """Output arrays for the clusters that items could choose.

    Attributes
    ----------
    num_offered, chosen
        For every visit, how many clusters the item could join, and the size of the one it joined.
    offered, compared
        For all these clusters in turn, the size and how many of its items the visited item was
        compared with.
    """

    num_offered: np.ndarray
    chosen: np.ndarray
    offered: np.ndarray
    compared: np.ndarray


class ClusterEvidence(NamedTuple):
    """Evidence for the clusters that the visited item may join.

    Attributes
    ----------
    score, is_seen
        For every cluster, the sum of the evidence, and whether there is any.
    seen
        The clusters with evidence, in the first places.
    """

    score: np.ndarray
    is_seen: np.ndarray
    seen: np.ndarray


@compiled
def place_of(scores: np.ndarray, number: int, chance: float) -> int:
    """Draw one of the first ``number`` places by their log odds, which become weights in place."""
    largest = scores[:number].max()
    total = 0.0
    for place in range(number):
        scores[place] = math.exp(scores[place] - largest)
        total += scores[place]
    left = chance * total
    for place in range(number):
        left -= scores[place]
        if left <= 0:
            return place
    return int(scores[:number].argmax())


@compiled
def clusters_of(
    z: np.ndarray, asked: np.ndarray, part: np.ndarray, join: np.ndarray
) -> ClusterTotals:
    """The clusters of some items.

    Parameters
    ----------
    z
        Cluster of every item, numbered without gaps.
    asked
        Items with evidence.
    part
        Part of every item.
    join
        ``exp log_join`` by cluster size, 0 for size 0.
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
    return ClusterTotals(sizes, part_of, total, number_of, free, np.array([most - first_free]))


@compiled
def _no_evidence(chain: Chain) -> ClusterEvidence:
    most = len(chain.clusters.sizes)
    is_seen = np.zeros(most, dtype=np.bool_)
    return ClusterEvidence(np.zeros(most), is_seen, np.empty(most + 1, dtype=np.int64))


@compiled
def _taken_out(visit: int, chain: Chain, weights: PartitionWeights) -> int:
    """Take the visited item out of its cluster; -1 if ``log_alone`` lacks the cluster number."""
    clusters, i = chain.clusters, chain.order[visit]
    k, p, sizes = chain.z[i], chain.part[i], clusters.sizes
    # There may be one fewer without the item.
    beyond = clusters.number_of[p] - weights.fewest[p]
    if not 0 < beyond < weights.log_alone.shape[1]:
        return -1
    clusters.total[p] += weights.join[sizes[k] - 1] - weights.join[sizes[k]]
    sizes[k] -= 1
    if sizes[k] == 0:
        clusters.free[clusters.num_free[0]] = k
        clusters.num_free[0] += 1
        clusters.number_of[p] -= 1
    return i


@compiled
def _put_in(
    i: int, num_seen: int, evidence: ClusterEvidence, chain: Chain, weights: PartitionWeights
) -> None:
    """Draw the cluster that an item joins, and reset ``evidence.is_seen``."""
    sizes, part_of, total, number_of, free, num_free = chain.clusters
    score, is_seen, seen = evidence
    p, chance = chain.part[i], chain.chance[:, i]
    scores = np.empty(num_seen + 2)
    beyond = number_of[p] - weights.fewest[p]
    scores[0], scores[1] = weights.log_alone[weights.row_of[p], beyond], -math.inf
    known = 0.0
    for place in range(num_seen):
        size = sizes[seen[place]]
        known += weights.join[size]
        scores[place + 2] = score[seen[place]] + weights.log_join[size] + weights.closure * size
    if weights.joins_strangers and num_seen < number_of[p]:
        scores[1] = math.log(max(total[p] - known, SMALLEST_PROBABILITY))
    place = place_of(scores, num_seen + 2, chance[0])
    if place == 0:
        num_free[0] -= 1
        k = free[num_free[0]]
        part_of[k] = p
        number_of[p] += 1
    elif place == 1:
        number, strangers = 0, 0.0
        for other in range(len(sizes)):
            if sizes[other] and part_of[other] == p and not is_seen[other]:
                seen[num_seen + number] = other
                strangers += weights.join[sizes[other]]
                number += 1
        left, drawn = chance[1] * strangers, num_seen
        while left > weights.join[sizes[seen[drawn]]] and drawn < num_seen + number - 1:
            left -= weights.join[sizes[seen[drawn]]]
            drawn += 1
        k = seen[drawn]
    else:
        k = seen[place - 2]
    for one in range(num_seen):
        is_seen[seen[one]] = False
    total[p] += weights.join[sizes[k] + 1] - weights.join[sizes[k]]
    sizes[k] += 1
    chain.z[i] = k


@compiled
def visit_items(
    pairs: Comparisons, offers: Offers, begin: int, chain: Chain, weights: PartitionWeights
) -> int:
    """Draw the clusters of items in the order of a chain, from ``begin`` on; see ``sweep``.

    Parameters
    ----------
    pairs
        The evidence about items.
    offers
        Where to write what the items could choose.
    begin
        The first place of the order to visit.
    chain
        The partition, which changes in place.
    weights
        The weights of the prior.

    Returns
    -------
    The next place to visit: the number of items, unless ``log_alone`` does not cover the number of
    clusters of the item's part.
    """
    sizes = chain.clusters.sizes
    evidence, edges_to = _no_evidence(chain), np.zeros(len(sizes), dtype=np.int64)
    end = offers.num_offered[:begin].sum()
    for visit in range(begin, len(chain.order)):
        i = _taken_out(visit, chain, weights)
        if i < 0:
            return visit
        num_seen = 0
        for edge in range(pairs.first[i], pairs.first[i + 1]):
            k = chain.z[pairs.others[edge]]
            if not evidence.is_seen[k]:
                evidence.is_seen[k], evidence.seen[num_seen] = True, k
                evidence.score[k], edges_to[k] = 0.0, 0
                num_seen += 1
            evidence.score[k] += pairs.evidence[edge]
            edges_to[k] += 1
        for place in range(num_seen):
            offers.offered[end + place] = sizes[evidence.seen[place]]
            offers.compared[end + place] = edges_to[evidence.seen[place]]
        _put_in(i, num_seen, evidence, chain, weights)
        offers.num_offered[visit], offers.chosen[visit] = num_seen, sizes[chain.z[i]] - 1
        end += num_seen
    return len(chain.order)


@compiled
def visit_paged_items(
    pages: SortedItems, begin: int, chain: Chain, weights: PartitionWeights
) -> int:
    """The same for items on sorted pages; see ``sweep_pages``.

    Parameters
    ----------
    pages
        The pages.
    begin, chain, weights
        As in ``visit_items``.

    Returns
    -------
    As ``visit_items`` does.
    """
    first, page_of, group_of, first_on, item_on, group_on, each, spread = pages
    most = len(chain.clusters.sizes)
    evidence, held, on_page = _no_evidence(chain), np.zeros(most), np.zeros(most)
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
                    if not evidence.is_seen[k]:
                        evidence.is_seen[k], evidence.score[k], evidence.seen[num_seen] = (
                            True,
                            0.0,
                            k,
                        )
                        num_seen += 1
                    on_page[k] += 1
                    held[k] += group_on[other] == group
            # Relative to a cluster without items on the page.
            silent = math.log(each[page] / spread[page])
            for place in range(num_seen):
                k = evidence.seen[place]
                if on_page[k]:
                    found = (held[k] + each[page]) / (on_page[k] + spread[page])
                    evidence.score[k] += math.log(found) - silent
                    on_page[k] = held[k] = 0.0
        _put_in(i, num_seen, evidence, chain, weights)
    return len(chain.order)


@compiled
def visit_hard_items(
    order: np.ndarray,
    hard: np.ndarray,
    edges: tuple[np.ndarray, np.ndarray],
    gain: np.ndarray,
    chance: np.ndarray,
    counts: tuple[float, float],
) -> None:
    """Draw whether each item is hard, in some order; see ``sweep_hard``.

    Parameters
    ----------
    order
        Items that were compared with others.
    hard
        1 for every item that is hard; changes in place.
    edges
        Where the edges of every item begin, and their other ends.
    gain
        For every edge, the evidence of the pair that the item is hard, if the other end is clear
        and if it is hard.
    chance
        The log odds of a uniform random number for every item.
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
