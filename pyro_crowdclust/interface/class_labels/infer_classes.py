"""Infers classes of items and confusion matrices of workers from class labels, in one call."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.errors import check_whole, warnings_once
from pyro_crowdclust.fitting import fit
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface.class_labels.calibrating import calibrated
from pyro_crowdclust.interface.class_labels.copies import copy_discounts, in_words
from pyro_crowdclust.interface.class_labels.one_rate import AverageWithOneRate
from pyro_crowdclust.interface.class_labels.options import OF_LABELS
from pyro_crowdclust.interface.class_labels.second_labels import shows_workers
from pyro_crowdclust.interface.class_labels.trait import (
    AverageWithTrait,
    averaged_with_trait,
    fit_trait,
    shared_errors_in_words,
)
from pyro_crowdclust.interface.class_labels.trusted_reading import counts_in_words
from pyro_crowdclust.interface.class_labels.worker_models import best_of_workers
from pyro_crowdclust.interface.class_labels.workers import Workers, codes_of_workers
from pyro_crowdclust.interface.option_checks import check_no_checkpoint, check_options
from pyro_crowdclust.models import DawidSkene
from pyro_crowdclust.results import Chosen, Fitted, with_step
from pyro_crowdclust.results.agreement import warn_of_contradictions, warn_of_guesses
from pyro_crowdclust.training import is_interrupted
from pyro_crowdclust.training.argument_checks import check_has_class_labels


@warnings_once()
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
    learned, and of one beside ``outliers``, such as an expert among weak workers; and
    ``AnswerSources`` of truth and habit, in which a worker either knows the class or has a habit,
    which takes far fewer answers to learn. With fewer than five workers, ``OneCoin``, with one rate
    of right answers per worker, replaces the last two. The fit with the highest ELBO, which
    penalizes learned parameters, is returned, of those that keep all classes (``keeping_classes``):
    few labels are often likeliest if a class is another name of a more frequent one. Truth and
    habit, or one rate, give way to the best matrices where these predict each label clearly better,
    by two standard errors, from the others about its item (``pooling.label_predictions``). With
    many classes, communities whose learned concentrations cost too much to be chosen are not
    fitted. Where no fit keeps all classes, the fixed prior counts four or sixteen times as much,
    but not in the table of the rates. Two workers who name three classes or more have one rate,
    which is all that their labels show. Ctrl-C returns the best fit so far. Neither settings nor
    true classes are needed. The probabilities of an item use what is known about the workers from
    other items (``ClassLabelGuide(moderated=True)``). They are calibrated: at the temperature at
    which answers are predicted best from others about their item, and as if all answers about one
    item in ten were a single one, since workers may all err about the same items
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

    If copies explain best why some workers agree, the labels are fitted once more instead, by
    workers who count as fewer independent ones (``pooling.discount_copies``); ``chosen`` names
    them.

    Parameters
    ----------
    data
        ``CrowdData(None, labels=frame)``; features are not used.
    num_communities
        Numbers of communities to choose from, and no other models; 0 stands for the prior that is
        not learned. By default 0 to 4, outliers, and truth and habit, or one rate per worker, and
        the average with a trait or with one rate, unless ``trusted`` or ``worker_weights`` are
        given; copies are looked for unless ``worker_weights`` are given.
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
    if num_communities is not None or worker_weights is not None:
        return result
    return _with_shared_errors(result, given, options)


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


def _with_shared_errors(result: Fitted, given: Workers, options: dict[str, Any]) -> Fitted:
    """The result with discounted answers if some workers copy others, or else the average."""
    data, is_whole = result.data, not is_interrupted(result)
    averages = is_whole and given.are_alike and shows_workers(data)
    trait = fit_trait(data, **options) if averages and data.num_classes == 2 else None
    # Copies may explain what the calibration corrects.
    plain = result.guide.read_at(temperature=1.0, single_answer_probability=0.0)
    worker_weights = copy_discounts(replace(result, guide=plain), trait) if is_whole else None
    reasons: list[str] = []
    fits = {"independent workers": result}
    if worker_weights is not None:
        given = given._replace(worker_weights=worker_weights)
        result = fits["copies discounted"] = infer_independent(data, given, **options)
        reasons.append(in_words(worker_weights, data))
    elif trait is not None:
        average = with_step(averaged_with_trait(result, trait), AverageWithTrait(options))
        result = fits["average with a trait"] = average
        reasons += filter(None, [shared_errors_in_words(result)])
    elif averages:
        result = fits["average with one rate"] = AverageWithOneRate(options).after(result)
    if counts := counts_in_words(result):
        reasons.append(counts)
    if not reasons:
        return result
    row = {"features": "none", "components": data.num_classes, "held_out": np.nan}
    rows = [
        row | {"kind": kind, "seconds": one.seconds, "chosen": one is result}
        for kind, one in fits.items()
    ]
    return replace(result, chosen=Chosen(pd.DataFrame(rows), "; ".join(reasons)))


def _fit_workers(data: CrowdData, options: dict[str, Any], workers: Workers) -> Fitted:
    model = DawidSkene(workers.annotators(data))
    return fit(model, ClassLabelGuide(model, moderated=True), data, **options)
