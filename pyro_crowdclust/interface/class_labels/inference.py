"""Infers classes of items and confusion matrices of workers from class labels, in one call."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.errors import check_whole, did_you_mean, show
from pyro_crowdclust.fitting import fit
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface.class_labels.calibrating import calibrated
from pyro_crowdclust.interface.class_labels.constant_workers import always_say_the_same
from pyro_crowdclust.interface.class_labels.one_rate import AverageWithOneRate
from pyro_crowdclust.interface.class_labels.options import OF_LABELS
from pyro_crowdclust.interface.class_labels.trait import AverageWithTrait
from pyro_crowdclust.interface.class_labels.two_workers import at_one_rate
from pyro_crowdclust.interface.class_labels.workers import Workers
from pyro_crowdclust.interface.option_checks import check_no_checkpoint, check_options
from pyro_crowdclust.models import DawidSkene
from pyro_crowdclust.restarts import best_first
from pyro_crowdclust.results import Fitted
from pyro_crowdclust.results.agreement import warn_of_contradictions, warn_of_guesses
from pyro_crowdclust.training import is_interrupted
from pyro_crowdclust.training.argument_checks import check_has_class_labels

# Numbers of communities that are tried; 0 stands for a prior that is not learned.
_NUMBERS = 0, 1, 2, 3, 4
# Fewer workers do not determine a prior of workers: under one that is learned from three, one of
# them is always right.
MIN_WORKERS = 5
# A fit loses a class if fewer than this share of its items by the vote are left.
_MIN_KEPT = 0.5
# Classes with fewer votes, or a smaller share of them, may be lost.
_MIN_VOTES, _MIN_SHARE = 5.0, 0.05
# Priors that are tried in turn where all fits lose a class.
_STRENGTHS = 4.0, 16.0
# Agreement shows how workers err only if at least this share of the items has a second label.
_MIN_SECOND = 0.1


def infer_classes(
    data: CrowdData,
    num_communities: Sequence[int] | None = None,
    trusted: Iterable[Hashable] = (),
    worker_weights: Sequence[float] | None = None,
    **options: Any,
) -> Fitted:
    """The classes behind the labels of ``data``: Dawid-Skene with learned priors.

    Several models of the workers are fitted: ``ConfusionMatrices`` under a fixed prior of eight
    right answers in ten; ``CommunityConfusion`` of one to four communities, whose priors are
    learned; and ``AnswerSources`` of truth and habit, in which a worker either knows the class or
    has a habit, which takes far fewer answers to learn, or, with fewer than five workers,
    ``OneCoin``, with one rate of right answers per worker. The fit with the highest ELBO, which
    penalizes learned parameters, is returned, of those that keep all classes (``keeping_classes``):
    few labels are often likeliest if a class is another name of a more frequent one. Where none
    keeps them, the fixed prior counts four or sixteen times as much, but not in the table of the
    rates. Two workers who name three classes or more have one rate, which is all that their labels
    show. Ctrl-C returns the best fit so far. Neither settings nor true classes are needed. The
    probabilities of an item use what is known about the workers from other items
    (``ClassLabelGuide(moderated=True)``). They are calibrated: at the temperature at which answers
    are predicted best from others about their item, and as if all answers about one item in ten
    were a single one, since workers may all err about the same items
    (``pooling.calibrated_guide``), or, with trusted workers, by the items that these have labelled.

    Only the fixed prior is used where labels do not determine another: if some workers give the
    same class to ten items or more, always, and fewer than five others are left, or if fewer than
    one item in ten has a second label.

    If workers agree about the same items no more often than guesses would, a warning says so.

    Annotators may make the same errors, as language models do. For two classes the result is
    therefore the average with a fit of ``LatentTrait``. Its weight is .45 where the agreement of
    few workers tells nothing about shared errors, and rises to .9 with the agreement that the
    classes do not explain (``pooling.weight_of_shared_errors``). ``result.guide.own`` are the
    independent workers alone, ``infer_trait`` is the trait alone.

    For three classes or more, it is the average with a fit of ``OneCoin``, of the weight
    ``1 - .9 / sqrt(T)`` at temperature T: where workers err together, rare classes take in items of
    frequent ones, which one rate per worker does not allow.

    Parameters
    ----------
    data
        ``CrowdData(None, labels=frame)``; features are not used.
    num_communities
        Numbers of communities to choose from, and no other models; 0 stands for the prior that is
        not learned. By default 0 to 4, and truth and habit, or one rate per worker, and the average
        with a trait or with one rate, unless ``trusted`` or ``worker_weights`` are given.
    trusted
        Workers who are always right, such as an expert. Only priors that are learned are then
        tried, if any number of communities is above 0: the trusted labels show what the other
        workers have in common.
    worker_weights
        The number of independent workers that each of ``data.worker_ids`` counts as, such as the
        ``worker_weights`` of ``pooling.discount_copies``; 1 each by default.
    options
        Options of ``fit``. Defaults: the full batch, 200 epochs, a step size of 0.5 and a tolerance
        of 1e-5 nats per item.

    Raises
    ------
    TypeError
        For an unknown argument.
    ValueError
        If there are no class labels, or known ones; if ``num_communities`` is empty, or a
        checkpoint is given with several numbers; and if a trusted worker gave no label.

    Examples
    --------
    >>> said = {"item": [0, 0, 0, 1, 1], "worker": list("abcab"), "label": list("xxyyy")}
    >>> result = infer_classes(CrowdData(None, labels=said), num_communities=[1])
    >>> result.class_probabilities.idxmax(axis=1).tolist()
    ['x', 'y']
    """
    check_options(infer_classes, options)
    check_has_class_labels(data)
    given = Workers(worker_weights=worker_weights, trusted=codes_of_workers(trusted, data))
    result = infer_independent(data, given, num_communities, **options)
    is_plain = num_communities is None and given.are_alike
    if not is_plain or is_interrupted(result) or not shows_workers(data):
        return result
    average = AverageWithTrait if data.num_classes == 2 else AverageWithOneRate
    return average(options).after(result)


def infer_independent(
    data: CrowdData, given: Workers, num_communities: Sequence[int] | None = None, **options: Any
) -> Fitted:
    """``infer_classes`` under workers who err independently: without a trait.

    Parameters
    ----------
    data
        Class labels.
    given
        Who is trusted, and how much each worker counts.
    num_communities, options
        As for ``infer_classes``.
    """
    if given.trusted:
        warn_of_contradictions(given.trusted, data)
    else:
        warn_of_guesses(data)
    if isinstance(num_communities, Integral):
        raise ValueError(
            f"num_communities is {num_communities}, but must be a list of numbers to try: "
            f"[{num_communities}]"
        )
    if num_communities is None or len(num_communities) > 1:
        check_no_checkpoint(options)
    if num_communities is not None:
        if not num_communities:
            raise ValueError("num_communities is empty: pass one number or more")
        for number in num_communities:
            check_whole("num_communities", number, least=0)
    attempt = partial(_fit_workers, data, OF_LABELS | options)
    return calibrated(best_of_workers(data, attempt, given, num_communities))


def may_err_together(data: CrowdData) -> bool:
    """Whether a trait may explain labels of two classes: items have second labels, which vary."""
    return data.num_classes == 2 and shows_workers(data)


def shows_workers(data: CrowdData) -> bool:
    """Whether labels show how workers err: items have second labels, and enough workers vary."""
    return not _labels_stand_alone(data) and not few_workers_vary(data)


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
        # Few workers do not determine how habits are distributed.
        many = data.num_workers >= MIN_WORKERS
        models.append(Workers(truth_or_habit=True) if many else Workers(one_rate=True))
    found = keeping_classes(best_first(partial(attempt, workers) for workers in models))
    strengths = _STRENGTHS if 0 in numbers else ()
    for strength in strengths:
        if is_interrupted(found) or _least_kept(found) >= _MIN_KEPT:
            break
        # Of a rare class, the votes are mostly errors, and a strong prior keeps even less of it.
        cautious = attempt(given._replace(num_communities=0, prior_strength=strength))
        found = keeping_classes([cautious, found])
    return found


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
    labels = fitted.data.class_labels
    assert labels is not None  # as the callers have checked
    items = labels.labelled_items
    of_items = labels.of_items(items).votes()
    votes = (of_items / of_items.sum(1, keepdim=True)).sum(0).numpy()
    found = fitted.probabilities[items.numpy()].sum(0)
    counts = votes >= max(_MIN_VOTES, _MIN_SHARE * len(items))
    return float((found[counts] / votes[counts]).min(initial=1.0))


def _labels_stand_alone(data: CrowdData) -> bool:
    """Whether fewer than one labelled item in ten has a second label."""
    labels = data.class_labels
    assert labels is not None  # as the caller has checked
    number = len(labels.labelled_items)
    return len(labels.label) - number < _MIN_SECOND * number


def few_workers_vary(data: CrowdData) -> bool:
    """Whether fewer than five workers are left without those who say the same of ten items or more.

    Under a prior that is learned from these few and from workers who always say the same, answers
    are certain in all classes, and so are the classes. False if there are no such workers.
    """
    number = int(always_say_the_same(data).sum())
    return number > 0 and data.num_workers - number < MIN_WORKERS


def codes_of_workers(named: Iterable[Hashable], data: CrowdData) -> tuple[int, ...]:
    """Codes of workers by their ids; raises a ``ValueError`` for one who gave no answer."""
    if isinstance(named, str | bytes) or not isinstance(named, Iterable):
        remedy = "leave it out" if named is None else f"[{named!r}]"
        raise ValueError(f"trusted is {named!r}, but must be a list of workers: {remedy}")
    each = [*named]
    wanted = pd.Index(each, tupleize_cols=False)
    codes = data.worker_ids.get_indexer(wanted).tolist() if each else []
    for who, code in zip(each, codes, strict=True):
        if code < 0:
            raise ValueError(
                f"trusted names {show(who)}, who gave no answer{did_you_mean(who, data.worker_ids)}"
                ": name workers as in the column 'worker'"
            )
    return tuple(codes)


def _fit_workers(data: CrowdData, options: dict[str, Any], workers: Workers) -> Fitted:
    model = DawidSkene(workers.annotators(data))
    return fit(model, ClassLabelGuide(model, moderated=True), data, **options)
