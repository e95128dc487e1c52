"""Which model of the workers explains class labels best, without losing a class."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from pyro_crowdclust.annotators import AnswerSources, OneCoin
from pyro_crowdclust.annotators.learned_rows import LearnedRows
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.interface.class_labels.constant_workers import MIN_WORKERS
from pyro_crowdclust.interface.class_labels.second_labels import shows_workers
from pyro_crowdclust.interface.class_labels.two_workers import at_one_rate
from pyro_crowdclust.interface.class_labels.workers import RIGHT, WRONG, Workers
from pyro_crowdclust.pooling.label_predictions import predicts_better
from pyro_crowdclust.restarts import best_first
from pyro_crowdclust.results import Fitted
from pyro_crowdclust.training import is_interrupted

# Numbers of communities that are tried; 0 stands for a prior that is not learned.
_NUMBERS = 0, 1, 2, 3, 4
# Priors of workers whom no other is like: that of ``RIGHT`` and ``WRONG`` answers, and a weak one,
# under which a worker may be always right.
_OUTLIERS = (RIGHT, WRONG), (2.0, 0.5)
# A fit loses a class if fewer than this share of its items by the vote are left.
_MIN_KEPT = 0.5
# Classes with fewer votes, or a smaller share of them, may be lost.
_MIN_VOTES, _MIN_SHARE = 5.0, 0.05
# Priors that are tried in turn where all fits lose a class.
_STRENGTHS = 4.0, 16.0


def best_of_workers(
    data: CrowdData,
    attempt: Callable[[Workers], Fitted],
    given: Workers,
    num_communities: Sequence[int] | None = None,
) -> Fitted:
    """The best fit to class labels alone among several models of the workers.

    Parameters
    ----------
    data
        The labels.
    attempt
        Fits a model of the workers.
    given
        Who is trusted, and how much each worker counts.
    num_communities
        As for ``infer_classes``.
    """
    numbers = _NUMBERS if num_communities is None else num_communities
    with_simple = num_communities is None and given.are_alike
    if not given.trusted and 0 in numbers and not shows_workers(data):
        numbers, with_simple = [0], False
    if given.trusted and any(numbers):  # their labels suffice to learn how the others err
        numbers = [number for number in numbers if number]
    if with_simple and data.num_workers == 2 and data.num_classes > 2:
        return at_one_rate(attempt(Workers(one_rate=True)))
    models = [given._replace(num_communities=number) for number in numbers]
    if with_simple:
        # Few workers do not determine how habits are distributed, nor who is unlike the others.
        of_many = Workers(truth_or_habit=True), Workers(outliers=_OUTLIERS)
        models += of_many if data.num_workers >= MIN_WORKERS else [Workers(one_rate=True)]
    fits = best_first(_promising(data, attempt, models))
    found = keeping_classes(fits)
    if with_simple:
        found = _or_matrices(found, fits)
    strengths = _STRENGTHS if 0 in numbers else ()
    for strength in strengths:
        if is_interrupted(found) or _least_kept(found) >= _MIN_KEPT:
            break
        # Of a rare class, the votes are mostly errors, and a strong prior keeps even less of it.
        cautious = attempt(given._replace(num_communities=0, prior_strength=strength))
        found = keeping_classes([cautious, found])
    return found


def _or_matrices(found: Fitted, fits: Sequence[Fitted]) -> Fitted:
    """The best fit of matrices, where a simple model was found that predicts labels clearly worse.

    In weak crowds, whose labels leave most classes open, the ELBO may prefer a simple model that is
    wrong. Its own predictions favour truth and habit, too, since labels stay in the posteriors of
    its workers (``HeldOutLabels``): so they speak against a simple model only.
    """
    if is_interrupted(found) or not _is_simple(found):
        return found
    matrices = keeping_classes([fitted for fitted in fits if not _is_simple(fitted)])
    is_whole = _least_kept(matrices) >= _MIN_KEPT
    return matrices if is_whole and predicts_better(matrices, found) else found


def _is_simple(fitted: Fitted) -> bool:
    return isinstance(fitted.model.annotators, AnswerSources | OneCoin)


def _promising(
    data: CrowdData, attempt: Callable[[Workers], Fitted], models: Sequence[Workers]
) -> Iterator[Callable[[], Fitted]]:
    """Attempts at all models that may be chosen, those with few learned concentrations first.

    Left out is a model whose ELBO cannot reach that of a fit that keeps all classes: each learned
    concentration costs 2.58 nats or more (``LearnedRows.highest_log_prior``), and each community
    has one for every cell of a confusion matrix.
    """
    reached = -math.inf

    def fitted(workers: Workers) -> Fitted:
        nonlocal reached
        found = attempt(workers)
        if _least_kept(found) >= _MIN_KEPT:
            reached = max(reached, found.elbo)
        return found

    limits = [(_highest_elbo(data, workers), workers) for workers in models]
    for highest, workers in sorted(limits, key=itemgetter(0), reverse=True):
        if highest > reached:
            yield partial(fitted, workers)


def _highest_elbo(data: CrowdData, workers: Workers) -> float:
    """What the ELBO of these labels cannot exceed."""
    annotators: Any = workers.annotators(data)
    parts = [part for part in annotators.modules() if isinstance(part, LearnedRows)]
    return sum((part.highest_log_prior for part in parts), start=0.0)


def keeping_classes(fits: Sequence[Fitted]) -> Fitted:
    """The first of some fits in which each class has at least half of the items that name it.

    The others explain one class as an error of all workers. If all fits do, it is the one that
    keeps most of each class.

    Parameters
    ----------
    fits
        Fits of class labels to the same data, the best first.
    """
    kept: list[float] = []
    for fitted in fits:
        kept.append(_least_kept(fitted))
        if kept[-1] >= _MIN_KEPT:
            break
    found = fits[int(np.argmax(kept))]
    if found is not fits[0] and is_interrupted(fits[0]):
        return replace(found, stop_reason=fits[0].stop_reason)
    return found


def _least_kept(fitted: Fitted) -> float:
    """The smallest ratio of a class's items in a fit to its items by the vote.

    Classes with fewer than five votes, or a twentieth of them, do not count.
    """
    labels = fitted.data.needed_class_labels
    items = labels.labelled_items
    of_items = labels.of_items(items).votes()
    votes = (of_items / of_items.sum(1, keepdim=True)).sum(0).numpy()
    found = fitted.probabilities[items.numpy()].sum(0)
    counts = votes >= max(_MIN_VOTES, _MIN_SHARE * len(items))
    return float((found[counts] / votes[counts]).min(initial=1.0))
