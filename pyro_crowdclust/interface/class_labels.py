"""Infers classes of items and confusion matrices of workers from class labels, in one call."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
import torch

from pyro_crowdclust.annotators import (
    AnswerSources,
    ClassStates,
    CommunityConfusion,
    ConfusionMatrices,
    Habit,
    ItemTrait,
    Truth,
)
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.data.tables import show
from pyro_crowdclust.errors import check_whole, did_you_mean
from pyro_crowdclust.fitting import fit
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface.class_choice.workers import Workers
from pyro_crowdclust.interface.options import check_no_checkpoint, check_options
from pyro_crowdclust.models import DawidSkene, LatentTrait
from pyro_crowdclust.protocols import ClassAnnotators, SupportsDraws, SupportsTrait
from pyro_crowdclust.restarts import best_first
from pyro_crowdclust.results import (
    AveragedClasses,
    DrawnClasses,
    Fitted,
    average_classes,
    discount_copies,
    draw_classes,
    weight_of_copies,
)
from pyro_crowdclust.results.agreement import warn_of_contradictions, warn_of_guesses
from pyro_crowdclust.results.soft_answers import vote_share
from pyro_crowdclust.training import Stopping, completed
from pyro_crowdclust.training.given import check_class_labels

# There are few learned priors with exact gradients, so that large steps converge in about 100.
priors_optimizer = partial(torch.optim.Adam, lr=0.1)

_DEFAULTS = {
    "batch_size": None,
    "epochs": 200,
    "step_size": 0.5,
    "stopping": Stopping(1e-5),
    "optim": priors_optimizer,
    "progress": False,
}
# The cut of a trait depends on a few hundredths of it, which still move in its slow last steps.
_OF_TRAIT: dict[str, Any] = {"epochs": 500, "stopping": Stopping(1e-6)}
# Fewer workers do not determine a prior of workers: under one that is learned from three, one of
# them is always right.
_MIN_WORKERS = 5
# Draws continue the training, in those that are discarded before the first one that counts.
_TO_DRAW: dict[str, Any] = {"epochs": 60}


def infer_classes(
    data: CrowdData,
    num_communities: Sequence[int] = (0, 1, 2, 3, 4),
    dependent: bool = False,
    share: float | None = None,
    trusted: Iterable[Hashable] = (),
    worker_weights: Sequence[float] | None = None,
    **options: Any,
) -> Fitted:
    """The classes behind the labels of ``data``: Dawid-Skene with learned priors.

    There is one fit with ``CommunityConfusion`` for each number of communities, and, for 0
    communities, one with the fixed priors of ``ConfusionMatrices``: few answers do not determine
    what workers have in common, and a class that is rarely named could become another name of a
    frequent one. The fit with the highest ELBO, which penalizes learned parameters, is returned;
    Ctrl-C returns the best fit so far. Neither settings nor true classes are needed. The
    probabilities of an item use what is known about the workers from other items
    (``ClassLabelGuide(moderated=True)``); for fits without ``dependent``,
    ``results.calibrated_class_probabilities`` calibrates them by how well answers are predicted
    from others about their item.

    If workers agree about the same items no more often than guesses would, a warning says so.

    If annotators make the same errors, as language models do, pass ``dependent=True``: one fit of
    ``LatentTrait``, for two classes.

    Parameters
    ----------
    data
        ``CrowdData(None, labels=frame)``; features are not used.
    num_communities
        Numbers of communities to choose from; 0 stands for a prior that is not learned.
    dependent
        Whether annotators make the same errors. ``num_communities`` is then ignored.
    share
        If dependent, the expected share of the second of ``data.class_ids``, which matters if there
        are few annotators; from the votes by default.
    trusted
        Workers who are always right, such as an expert; not allowed if dependent. Only priors that
        are learned are then tried, if any number of communities is above 0: the trusted labels show
        what the other workers have in common.
    worker_weights
        The number of independent workers that each of ``data.worker_ids`` counts as, such as
        ``results.discount_copies(data).worker_weights``; 1 each by default. Not allowed if
        dependent.
    options
        Options of ``fit``. Defaults: the full batch, 200 epochs, a step size of 0.5 and a tolerance
        of 1e-5 nats per item; if dependent, 500 epochs and 1e-6 nats.

    Raises
    ------
    TypeError
        For an unknown argument.
    ValueError
        If there are no class labels, or known ones; if ``num_communities`` is empty, or a
        checkpoint is given with several numbers; if ``share`` is given without ``dependent``; if
        ``dependent`` is given with other than two classes, ``trusted`` or ``worker_weights``; and
        if a trusted worker gave no label.

    Examples
    --------
    >>> said = {"item": [0, 0, 0, 1, 1], "worker": list("abcab"), "label": list("xxyyy")}
    >>> result = infer_classes(CrowdData(None, labels=said), num_communities=[1])
    >>> result.class_probabilities.idxmax(axis=1).tolist()
    ['x', 'y']
    """
    check_options(infer_classes, options)
    check_class_labels(data)
    if share is not None and not dependent:
        raise ValueError(
            f"share is {share}, but is used only with dependent=True: leave it out, or pass that"
        )
    codes = codes_of_workers(trusted, data)
    if codes:
        warn_of_contradictions(codes, data)
    else:
        warn_of_guesses(data)
    if dependent:
        if worker_weights is not None:
            raise ValueError(
                "worker_weights requires workers who err independently: leave out worker_weights, "
                "or dependent=True"
            )
        if codes:
            raise ValueError(
                "trusted requires workers who err independently: leave out trusted, or "
                "dependent=True"
            )
        if data.num_classes != 2:
            raise ValueError(
                f"the data have {data.num_classes} classes, but dependent=True is for two: use "
                "average_annotator_models, or infer each class against all others"
            )
        model = _latent_trait(data, share)
        return fit(model, ClassLabelGuide(model), data, **_DEFAULTS | _OF_TRAIT | options)
    if isinstance(num_communities, Integral):
        raise ValueError(
            f"num_communities is {num_communities}, but must be a list of numbers to try: "
            f"[{num_communities}]"
        )
    if not num_communities:
        raise ValueError("num_communities is empty: pass one number or more")
    if len(num_communities) > 1:
        check_no_checkpoint(options)
    for number in num_communities:
        check_whole("num_communities", number, least=0)
    if codes and any(num_communities):  # trusted labels suffice to learn how the others err
        num_communities = [number for number in num_communities if number]
    return best_first(
        partial(_fit_workers, data, Workers(number, worker_weights, codes), _DEFAULTS | options)
        for number in num_communities
    )[0]


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


def _fit_workers(data: CrowdData, workers: Workers, options: dict[str, Any]) -> Fitted:
    model = DawidSkene(workers.annotators(data))
    return fit(model, ClassLabelGuide(model, moderated=True), data, **options)


def average_annotator_models(
    data: CrowdData, share: float | None = None, num_draws: int = 75, **options: Any
) -> AveragedClasses:
    """The classes behind the labels of ``data``: the average of five models of the annotators.

    These are two communities of confusion matrices; truth and habit; truth, habit and a confusion
    matrix; habit and a confusion matrix (``AnswerSources``); easy and hard items (``ClassStates``).
    The first four learn what workers have in common, which needs at least five workers: with fewer,
    confusion matrices with a fixed prior replace them. With two classes there is also a trait of
    the items (``LatentTrait``), and easy and hard items are averaged only if they predict answers
    clearly better than the trait does; models that predict clearly worse are left out. Starting
    from the fit of each model except the trait, classes and workers are drawn jointly
    (``draw_classes``). Temperatures and weights come from a fifth of the answers, which the first
    fit of each model does not see. If copies explain best why workers agree, ``discount_copies`` is
    averaged, too.

    It takes ten or twelve fits (four or six with fewer than five workers), and half as long again
    for draws. It gives better probabilities than ``infer_classes``, but no intervals of the
    workers' confusion matrices. Ctrl-C raises: some of the models do not make an average.

    Parameters
    ----------
    data
        ``CrowdData(None, labels=frame)``; features are not used.
    share
        As for ``infer_classes``; for two classes only.
    num_draws
        Draws of each of eight chains; 0: the fits are averaged without draws.
    options
        Options of ``fit``, as for ``infer_classes``, but with 60 epochs for models that are drawn.

    Raises
    ------
    ValueError
        If there are no class labels, if ``share`` is given and there are not two classes, if
        ``num_draws`` is no whole number, and for a checkpoint, as several fits are averaged.

    Examples
    --------
    >>> said = {"item": [0, 0, 0, 1, 1, 1], "worker": list("abcabc"), "label": list("xxxyyy")}
    >>> result = average_annotator_models(CrowdData(None, labels=said), num_draws=9, epochs=20)
    >>> result.class_probabilities.idxmax(axis=1).tolist()
    ['x', 'y']
    """
    check_options(average_annotator_models, options)
    check_no_checkpoint(options)
    check_whole("num_draws", num_draws, least=0)
    check_class_labels(data)
    if share is not None and data.num_classes != 2:
        raise ValueError(
            f"share is {share}, but it is the share of the second of two classes, and the data "
            f"have {data.num_classes} classes: leave it out"
        )
    warn_of_guesses(data)

    models = [*map(DawidSkene, _annotator_models(data.num_workers, data.num_classes))]
    has_trait = data.num_classes == 2

    def fit_each(part: CrowdData) -> list[Fitted | DrawnClasses]:
        trait = [_latent_trait(part, share)] if has_trait else []
        return [_fit_and_draw(model, part, num_draws, options) for model in [*models, *trait]]

    # Where a trait predicts clearly better than models of workers who err independently, these are
    # certain of classes that mean something else: which family of workers answered, or whether an
    # item is hard. States of a class may turn into classes, but the two sides of a trait cannot.
    trait, states = len(models), len(models) - 1
    average = average_classes(
        data,
        fit_each,
        standard=trait if has_trait else None,
        doubted=[states] if has_trait else [],
    )
    return _with_copies_discounted(data, average)


def _with_copies_discounted(data: CrowdData, average: AveragedClasses) -> AveragedClasses:
    """The average with discounted classes, weighted by how well copies explain the agreement."""
    discounted = discount_copies(data)
    traits = [
        member
        for member in average.members
        if isinstance(member, Fitted) and isinstance(member.model.annotators, SupportsTrait)
    ]
    trait = traits[0] if traits else None
    weight = weight_of_copies(discounted, average.class_probabilities.to_numpy(), trait)
    if weight == 0:
        return average
    return AveragedClasses(
        [*average.members, discounted],
        [*average.temperatures, 1.0],
        np.append((1 - weight) * average.weights, weight),
    )


def _fit_and_draw(
    model: Any, data: CrowdData, num_draws: int, options: dict[str, Any]
) -> Fitted | DrawnClasses:
    """The fit, or draws that start from it if its annotators can be drawn."""
    drawn = num_draws != 0 and isinstance(model.annotators, SupportsDraws)
    options = _DEFAULTS | (_TO_DRAW if drawn else {}) | options
    result = completed(fit(model, ClassLabelGuide(model), data, **options))
    return draw_classes(result, num_draws, seed=options.get("seed", 0)) if drawn else result


def _latent_trait(data: CrowdData, share: float | None) -> LatentTrait:
    if share is None:
        share = _share_of_votes(data)
    # Few annotators do not determine how the trait is distributed, so that its prior counts as a
    # tenth of the items.
    return LatentTrait(ItemTrait(data.num_workers, share, max(10.0, data.num_items / 10)))


def _share_of_votes(data: CrowdData) -> float:
    """The share of the items whose vote is for the second class."""
    labels = data.class_labels
    assert labels is not None  # as the callers have seen
    votes = labels.of_items(labels.labelled_items).votes()
    # One more item of each class, so that the share is never 0 or 1 (Laplace).
    return vote_share((votes[:, 1] - votes[:, 0]).sign().numpy(), even_items=2)


def _annotator_models(num_workers: int, num_classes: int) -> list[ClassAnnotators]:
    """The models that are averaged; the last one has states of classes."""
    size = num_workers, num_classes
    if num_workers < _MIN_WORKERS:
        return [ConfusionMatrices(*size), ClassStates(*size)]
    return [
        CommunityConfusion(*size, 2),
        AnswerSources([Truth(*size), Habit(*size)]),
        AnswerSources([Truth(*size), Habit(*size), CommunityConfusion(*size, 1)]),
        AnswerSources([CommunityConfusion(*size, 1), Habit(*size)]),
        ClassStates(*size),
    ]
