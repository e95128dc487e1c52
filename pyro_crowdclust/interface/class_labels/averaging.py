"""The average of several models of the annotators of class labels, in one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pyro_crowdclust.annotators import (
    AnswerSources,
    ClassStates,
    CommunityConfusion,
    ConfusionMatrices,
    Habit,
    Truth,
)
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.errors import check_whole
from pyro_crowdclust.fitting import fit
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface.class_labels.constant_workers import MIN_WORKERS, few_workers_vary
from pyro_crowdclust.interface.class_labels.options import OF_LABELS
from pyro_crowdclust.interface.class_labels.trait import latent_trait
from pyro_crowdclust.interface.option_checks import check_no_checkpoint, check_options
from pyro_crowdclust.models import DawidSkene
from pyro_crowdclust.pooling import (
    AveragedClasses,
    DrawnClasses,
    average_classes,
    discount_copies,
    draw_classes,
    weight_of_copies,
    weight_of_shared_errors,
)
from pyro_crowdclust.pooling.inferred_classes import InferredClasses
from pyro_crowdclust.protocols import ClassAnnotators, SupportsDraws, SupportsTrait
from pyro_crowdclust.results import Fitted
from pyro_crowdclust.results.agreement import warn_of_guesses
from pyro_crowdclust.training import uninterrupted
from pyro_crowdclust.training.argument_checks import check_has_class_labels

# The agreement of workers asks for at most this weight of a trait; beyond it, held-out answers do.
_MOST_ASKED_FOR = 0.7
# Draws continue the training, in those that are discarded before the first one that counts.
_TO_DRAW: dict[str, Any] = {"epochs": 60}


def average_annotator_models(
    data: CrowdData, share: float | None = None, num_draws: int = 75, **options: Any
) -> AveragedClasses:
    """The classes behind the labels of ``data``: the average of five models of the annotators.

    These are two communities of confusion matrices; truth and habit; truth, habit and a confusion
    matrix; habit and a confusion matrix (``AnswerSources``); easy and hard items (``ClassStates``).
    The first four learn what workers have in common, which needs at least five workers who vary
    (``infer_classes``): with fewer, confusion matrices with a fixed prior replace them. With two
    classes there is also a trait of the items (``LatentTrait``), and easy and hard items are
    averaged only if they predict answers clearly better than the trait does. Models that predict
    clearly worse are left out. The trait has at least the weight with which workers seem to err
    about the same items (``pooling.weight_of_shared_errors``), up to .7. Starting from the
    fit of each model except the trait, classes and workers are drawn jointly (``draw_classes``).
    Temperatures and weights are those under which each answer is predicted best from the others
    about its item (``average_classes``). If copies explain best why workers agree,
    ``discount_copies`` is averaged, too.

    It takes five fits (two with fewer than five workers), and as long again for draws; for two
    classes also eleven of the trait, ten of which predict answers that they have not seen. With
    ``num_draws=0`` every model takes eleven fits. It gives better probabilities than
    ``infer_classes``, but no intervals of the workers' confusion matrices. Keep what it found as
    tables, such as ``result.class_probabilities.to_csv("classes.csv")``: several fits have no
    single file. Ctrl-C raises: some of the models do not make an average.

    Parameters
    ----------
    data
        ``CrowdData(None, labels=frame)``; features are not used.
    share
        As for ``infer_trait``; for two classes only.
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
    check_has_class_labels(data)
    if share is not None and data.num_classes != 2:
        raise ValueError(
            f"share is {share}, but it is the share of the second of two classes, and the data "
            f"have {data.num_classes} classes: leave it out"
        )
    warn_of_guesses(data)

    learns_prior = data.num_workers >= MIN_WORKERS and not few_workers_vary(data)
    models = [*map(DawidSkene, annotator_models(data.num_workers, data.num_classes, learns_prior))]
    has_trait = data.num_classes == 2

    fits: list[Callable[[CrowdData], InferredClasses]] = [
        partial(_fit_and_draw, model, num_draws=num_draws, options=options) for model in models
    ]
    if has_trait:
        fits.append(lambda part: _fit_and_draw(latent_trait(part, share), part, num_draws, options))
    # Where a trait predicts clearly better than models of workers who err independently, these are
    # certain of classes that mean something else: which family of workers answered, or whether an
    # item is hard. States of a class may turn into classes, but the two sides of a trait cannot.
    trait, states = len(models), len(models) - 1
    average = average_classes(
        data,
        fits,
        standard=trait if has_trait else None,
        doubted=[states] if has_trait else [],
    )
    return _with_copies_discounted(data, _with_shared_errors(data, average))


def _with_shared_errors(data: CrowdData, average: AveragedClasses) -> AveragedClasses:
    """The average with at least the weight of a trait that the agreement of workers asks for.

    Held-out answers do not see to it: whatever explains the agreement predicts answers.
    """
    is_trait = np.array([_has_trait(member) for member in average.members])
    own = average.weights[is_trait].sum()
    if not 0 < own < 1:
        return average
    others = [w * m.probabilities for w, m in zip(average.weights, average.members, strict=True)]
    independent = sum(part for part, is_one in zip(others, is_trait, strict=True) if not is_one)
    asked_for = weight_of_shared_errors(data, np.asarray(independent) / (1 - own))
    weight = max(own, min(asked_for, _MOST_ASKED_FOR))
    factors = np.where(is_trait, weight / own, (1 - weight) / (1 - own))
    return replace(average, weights=average.weights * factors)


def _has_trait(member: InferredClasses) -> bool:
    return isinstance(member, Fitted) and isinstance(member.model.annotators, SupportsTrait)


def _with_copies_discounted(data: CrowdData, average: AveragedClasses) -> AveragedClasses:
    """The average with discounted classes, weighted by how well copies explain the agreement."""
    discounted = discount_copies(data)
    trait: Any = next(filter(_has_trait, average.members), None)
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
    options = OF_LABELS | (_TO_DRAW if drawn else {}) | options
    result = uninterrupted(fit(model, ClassLabelGuide(model), data, **options))
    return draw_classes(result, num_draws, seed=options.get("seed", 0)) if drawn else result


def annotator_models(
    num_workers: int, num_classes: int, learns_prior: bool = True
) -> list[ClassAnnotators]:
    """The models that are averaged; the last one has states of classes."""
    size = num_workers, num_classes
    if not learns_prior:
        return [ConfusionMatrices(*size), ClassStates(*size)]
    return [
        CommunityConfusion(*size, 2),
        AnswerSources([Truth(*size), Habit(*size)]),
        AnswerSources([Truth(*size), Habit(*size), CommunityConfusion(*size, 1)]),
        AnswerSources([CommunityConfusion(*size, 1), Habit(*size)]),
        ClassStates(*size),
    ]
