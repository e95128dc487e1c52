"""Gibbs loops over two partitions of the same items; see ``two_views`` for what they draw."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pyro_crowdclust.partitions.compiling import compiled


class AnswersAbout(NamedTuple):
    """Answers, and those about every item.

    Attributes
    ----------
    left, right, worker, label
        Items, worker and label (0 or 1) of every answer.
    first, others, answer
        Where the answers about every item begin, and for each its other item and its number.
    """

    left: np.ndarray
    right: np.ndarray
    worker: np.ndarray
    label: np.ndarray
    first: np.ndarray
    others: np.ndarray
    answer: np.ndarray


class TwoPartitions(NamedTuple):
    """The current draw of every run, which changes in place.

    Attributes
    ----------
    z, y
        Cluster of every item for the crowd, and for the few, shape ``[run, item]``.
    is_apart
        Whether y was not taken from z, shape ``[run, item]``.
    sizes
        Sizes of the clusters of z, shape ``[run, cluster]``.
    """

    z: np.ndarray
    y: np.ndarray
    is_apart: np.ndarray
    sizes: np.ndarray


@compiled
def _place_of(weights: np.ndarray, total: float, chance: float) -> int:
    """Draw a place with these weights, whose sum is ``total``."""
    left = chance * total
    for place in range(len(weights) - 1):
        left -= weights[place]
        if left <= 0:
            return place
    return len(weights) - 1


@compiled
def _exponentials(scores: np.ndarray, found: np.ndarray) -> float:
    """Write ``exp(score)`` of every place up to a common factor, and return their sum."""
    largest, total = scores.max(), 0.0
    for place in range(len(scores)):
        found[place] = math.exp(scores[place] - largest)
        total += found[place]
    return total


@compiled
def visit_views(
    about: AnswersAbout,
    order: np.ndarray,
    counted: np.ndarray,
    is_own: np.ndarray,
    weights: np.ndarray,
    log_sizes: np.ndarray,
    apart: np.ndarray,
    views: TwoPartitions,
    chance: np.ndarray,
) -> None:
    """Draw z of every item with y summed out, then y given z, in every run.

    Parameters
    ----------
    about
        The answers.
    order
        The items in the order of the visits.
    counted, is_own
        Which answers count, and which depend on y, shape ``[run, answer]``.
    weights
        The evidence for "same" of an answer, in nats, shape ``[run, label, worker]``.
    log_sizes
        Log weight of a cluster by its size.
    apart
        e of every run.
    views
        The partitions.
    chance
        Three uniform random numbers, shape ``[run, item, 3]``.
    """
    num_clusters = views.sizes.shape[1]
    score, by_few = np.zeros(num_clusters), np.zeros(num_clusters)
    weight, likely = np.zeros(num_clusters), np.zeros(num_clusters)
    for run in range(len(views.z)):
        z, y, sizes = views.z[run], views.y[run], views.sizes[run]
        for item in order:
            sizes[z[item]] -= 1
            for k in range(num_clusters):
                score[k], by_few[k] = log_sizes[sizes[k]], 0.0
            for edge in range(about.first[item], about.first[item + 1]):
                n, other = about.answer[edge], about.others[edge]
                if counted[run, n]:
                    evidence = weights[run, about.label[n], about.worker[n]]
                    if is_own[run, n]:
                        by_few[y[other]] += evidence
                    else:
                        score[z[other]] += evidence
            share, total = apart[run], 1.0
            if share > 0:
                total = _exponentials(by_few, likely)
                for k in range(num_clusters):
                    by_few[k] = math.log((1 - share) * likely[k] + share * total / num_clusters)
            score += by_few
            drawn = _place_of(weight, _exponentials(score, weight), chance[run, item, 0])
            elsewhere = share * total / num_clusters
            either = (1 - share) * likely[drawn] + elsewhere
            is_apart = chance[run, item, 1] * either < elsewhere
            z[item] = y[item] = drawn
            if is_apart:
                y[item] = _place_of(likely, total, chance[run, item, 2])
            views.is_apart[run, item] = is_apart
            sizes[drawn] += 1


@compiled
def count_views(
    about: AnswersAbout,
    in_fit: np.ndarray,
    is_own: np.ndarray,
    views: TwoPartitions,
    counts: np.ndarray,
    same: np.ndarray,
    alike: np.ndarray,
) -> None:
    """Count the right and wrong answers of every worker, in every run.

    Parameters
    ----------
    about, is_own, views
        As in ``visit_views``.
    in_fit
        Which answers are counted, shape ``[run, answer]``.
    counts
        Is increased by the number of answers by what the worker sees, 0 for different and 1 for the
        same, and by label, shape ``[run, worker, 2, 2]``.
    same, alike
        Become whether every pair shares a cluster as the worker sees it, and whether z and y agree
        about it, shape ``[run, answer]``.
    """
    for run in range(len(views.z)):
        z, y = views.z[run], views.y[run]
        for n in range(len(about.left)):
            i, j = about.left[n], about.right[n]
            by_z, by_y = z[i] == z[j], y[i] == y[j]
            same[run, n] = by_y if is_own[run, n] else by_z
            alike[run, n] = by_z == by_y
            if in_fit[run, n]:
                counts[run, about.worker[n], int(same[run, n]), about.label[n]] += 1
