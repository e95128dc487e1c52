"""Class labels in one call: the class of every item, and how good every worker is."""

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
from pyro_crowdclust.training import Stopping, whole
from pyro_crowdclust.training.given import check_class_labels

# Learned priors are few, and their gradients are exact: large steps settle them in some 100 steps.
priors_optimizer = partial(torch.optim.Adam, lr=0.1)

_DEFAULTS = {
    "batch_size": None,
    "epochs": 200,
    "step_size": 0.5,
    "stopping": Stopping(1e-5),
    "optim": priors_optimizer,
    "progress": False,
}
# Where a trait is cut hangs on a few hundredths of it, which its slow last steps still move.
_OF_TRAIT: dict[str, Any] = {"epochs": 500, "stopping": Stopping(1e-6)}
# Fewer workers do not tell what workers have in common: under a prior that is learned from three,
# one of them is always right.
_FEWEST_TO_LEARN_FROM = 5
# Draws go on to learn, and what comes before their counted ones is for that.
_TO_DRAW: dict[str, Any] = {"epochs": 60}


def infer_classes(
    data: CrowdData,
    num_communities: Sequence[int] = (0, 1, 2, 3, 4),
    dependent: bool = False,
    share: float | None = None,
    trusted: Iterable[Hashable] = (),
    worth: Sequence[float] | None = None,
    **options: Any,
) -> Fitted:
    """The classes behind the labels of ``data``: Dawid-Skene with learned priors.

    One fit with ``CommunityConfusion`` for each number of communities, and one, of 0 communities,
    with the priors of ``ConfusionMatrices``, which are not learned: few answers cannot tell what
    workers have in common, and a class that hardly anybody names would become another name of a
    common one. The fit with the highest ELBO, which charges for what is learned, is returned;
    Ctrl-C ends them with the best so far. Nothing is asked of the user and
    nothing of the truth. Probabilities are read by what workers are known for from other items
    (``ClassLabelGuide(moderated=True)``); ``results.calibrated_class_probabilities`` makes those of
    fits without ``dependent`` as sure as answers are predicted from others about their item.

    Where workers agree about the same items no more often than guesses would, a warning says so.

    Where annotators err together, as language models do, pass ``dependent=True``: one fit of
    ``LatentTrait``, for two classes.

    Parameters
    ----------
    data
        ``CrowdData(None, labels=frame)``; features are not used.
    num_communities
        Numbers to choose from; 0 for priors that are not learned.
    dependent
        Whether errors are shared. ``num_communities`` is of no use then.
    share
        If dependent, the expected share of the second of ``data.class_ids``, on which few
        annotators lean; from the votes by default.
    trusted
        Workers who are always right, such as an expert; none if dependent. Priors are learned then,
        if any number of communities is above 0: what others have in common shows where somebody
        is trusted.
    worth
        As how many independent workers each of ``data.worker_ids`` counts, such as the ``worth`` of
        ``results.discount_copies``; each as one by default. None if dependent.
    options
        Of ``fit``, in place of the full batch, 200 epochs, a step size of 0.5 and a tolerance of
        1e-5 nats per item; if dependent, 500 epochs and 1e-6 nats.

    Raises
    ------
    TypeError
        For an argument that there is not.
    ValueError
        Without class labels, with known ones, for no number of communities, a checkpoint of
        several, a ``share`` without ``dependent``, other than two classes, somebody trusted or
        ``worth`` with it, and somebody trusted who gave no label.

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
        raise ValueError(f"share is {share}, which needs dependent=True")
    codes = codes_of_workers(trusted, data)
    if codes:
        warn_of_contradictions(codes, data)
    else:
        warn_of_guesses(data)
    if dependent:
        if worth is not None:
            raise ValueError(
                "worth is for workers who err independently: leave out worth, or dependent=True"
            )
        if codes:
            raise ValueError(
                "trusted workers are for workers who err independently: leave out trusted, or "
                "dependent=True"
            )
        if data.num_classes != 2:
            raise ValueError(
                f"the data have {data.num_classes} classes, but dependent=True is for 2: use "
                "average_annotator_models, or make a question of each class"
            )
        model = _latent_trait(data, share)
        return fit(model, ClassLabelGuide(model), data, **_DEFAULTS | _OF_TRAIT | options)
    if isinstance(num_communities, Integral):
        raise ValueError(f"num_communities is {num_communities}; pass a list of numbers to try")
    if not num_communities:
        raise ValueError("num_communities is empty; pass one number or more")
    if len(num_communities) > 1:
        check_no_checkpoint(options)
    for number in num_communities:
        check_whole("num_communities", number, least=0)
    if codes and any(num_communities):  # it can be learned that others err in the same way
        num_communities = [number for number in num_communities if number]
    return best_first(
        partial(_fit_workers, data, Workers(number, worth, codes), _DEFAULTS | options)
        for number in num_communities
    )[0]


def codes_of_workers(named: Iterable[Hashable], data: CrowdData) -> tuple[int, ...]:
    """Codes of workers by their ids; a ``ValueError`` for one who gave no answer."""
    if isinstance(named, str | bytes) or not isinstance(named, Iterable):
        remedy = "leave it out" if named is None else f"[{named!r}]"
        raise ValueError(f"trusted is {named!r}, but must name workers in a list: {remedy}")
    each = [*named]
    wanted = pd.Index(each, tupleize_cols=False)
    codes = data.worker_ids.get_indexer(wanted).tolist() if each else []
    for who, code in zip(each, codes, strict=True):
        if code < 0:
            raise ValueError(
                f"trusted names {show(who)}, who gave no answer{did_you_mean(who, data.worker_ids)}"
                ": name workers as the column 'worker' does"
            )
    return tuple(codes)


def _fit_workers(data: CrowdData, workers: Workers, options: dict[str, Any]) -> Fitted:
    model = DawidSkene(workers.annotators(data))
    return fit(model, ClassLabelGuide(model, moderated=True), data, **options)


def average_annotator_models(
    data: CrowdData, share: float | None = None, num_draws: int = 75, **options: Any
) -> AveragedClasses:
    """The classes behind the labels of ``data``: the average of five models of the annotators.

    Two communities of confusion matrices; truth and habit; truth, habit and a confusion matrix;
    habit and a confusion matrix (``AnswerSources``); easy and hard items (``ClassStates``). The
    first four learn what workers have in common, which fewer than five do not tell: confusion
    matrices with a given prior are in their place then. Of two classes also a trait of the items
    (``LatentTrait``), and states only if they predict answers clearly better than it; whoever
    predicts clearly worse is left out. From the fits of all but the trait on, classes and workers
    are drawn together (``draw_classes``). Temperatures and weights come from a fifth of the
    answers, which the first fit of each model does not see. Where copies explain best why workers
    agree, ``discount_copies`` is averaged, too.

    It takes ten fits or twelve, of fewer than five workers four or six, and half as long again for
    draws, and gives better probabilities than ``infer_classes``, but no intervals of the workers'
    confusion matrices. Ctrl-C ends it with nothing: some of the models are no average of them.

    Parameters
    ----------
    data
        ``CrowdData(None, labels=frame)``; features are not used.
    share
        As for ``infer_classes``; of two classes alone.
    num_draws
        Of each of eight chains; 0 leaves it at the fits.
    options
        Of ``fit``, as for ``infer_classes``, but 60 epochs of models that are drawn.

    Raises
    ------
    ValueError
        Without class labels, for a share of other than two classes, for no whole number of draws,
        and for a checkpoint, as several fits are averaged.

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
            f"share is {share}, but is that of the second of two classes, and the data have "
            f"{data.num_classes}: leave it out"
        )
    warn_of_guesses(data)

    models = [*map(DawidSkene, _annotator_models(data.num_workers, data.num_classes))]
    has_trait = data.num_classes == 2

    def fit_each(part: CrowdData) -> list[Fitted | DrawnClasses]:
        trait = [_latent_trait(part, share)] if has_trait else []
        return [_fit_and_draw(model, part, num_draws, options) for model in [*models, *trait]]

    # Where a trait predicts clearly better than workers who err independently, these are sure of
    # classes that are something else: which family answered, or whether an item is hard. States
    # of classes may become classes themselves, while a trait knows which side of it is which.
    trait, states = len(models), len(models) - 1
    average = average_classes(
        data,
        fit_each,
        standard=trait if has_trait else None,
        doubted=[states] if has_trait else [],
    )
    return _with_copies_discounted(data, average)


def _with_copies_discounted(data: CrowdData, average: AveragedClasses) -> AveragedClasses:
    """The average, with discounted classes as far as copies explain why workers agree."""
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
    """The fit, and draws from it on where its annotators can be drawn."""
    drawn = num_draws != 0 and isinstance(model.annotators, SupportsDraws)
    options = _DEFAULTS | (_TO_DRAW if drawn else {}) | options
    result = whole(fit(model, ClassLabelGuide(model), data, **options))
    return draw_classes(result, num_draws, seed=options.get("seed", 0)) if drawn else result


def _latent_trait(data: CrowdData, share: float | None) -> LatentTrait:
    if share is None:
        share = _share_of_votes(data)
    # Few annotators do not tell how the trait is distributed; a tenth of the items is enough.
    return LatentTrait(ItemTrait(data.num_workers, share, max(10.0, data.num_items / 10)))


def _share_of_votes(data: CrowdData) -> float:
    """The share of the items whose vote is for the second class."""
    labels = data.class_labels
    assert labels is not None  # as the callers have seen
    votes = labels.of_items(labels.labelled_items).votes()
    # One item of each class more, so that the share is never 0 or 1 (Laplace).
    return vote_share((votes[:, 1] - votes[:, 0]).sign().numpy(), even_items=2)


def _annotator_models(num_workers: int, num_classes: int) -> list[ClassAnnotators]:
    """Classes without and, at last, with states."""
    size = num_workers, num_classes
    if num_workers < _FEWEST_TO_LEARN_FROM:
        return [ConfusionMatrices(*size), ClassStates(*size)]
    return [
        CommunityConfusion(*size, 2),
        AnswerSources([Truth(*size), Habit(*size)]),
        AnswerSources([Truth(*size), Habit(*size), CommunityConfusion(*size, 1)]),
        AnswerSources([CommunityConfusion(*size, 1), Habit(*size)]),
        ClassStates(*size),
    ]
