"""Class labels in one call: the class of every item, and how good every worker is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from pyro_crowdclust.annotators import (
    AnswerSources,
    ClassStates,
    CommunityConfusion,
    Habit,
    Truth,
)
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.fitting import fit
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.models import DawidSkene
from pyro_crowdclust.protocols import ClassAnnotators
from pyro_crowdclust.results import AveragedClasses, Fitted, average_classes
from pyro_crowdclust.training import Stopping

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


def infer_classes(
    data: CrowdData, num_communities: Sequence[int] = (1, 2, 3, 4), **options: Any
) -> Fitted:
    """The classes behind the labels of ``data``: Dawid-Skene with learned priors.

    One fit with ``CommunityConfusion`` for each number of communities; the one with the highest
    ELBO is returned. Nothing is asked of the user and nothing of the truth. For probabilities that
    keep what they promise, see ``label_calibration.calibrated_class_probabilities``.

    Parameters
    ----------
    data
        ``CrowdData(None, labels=frame)``; features are not used.
    num_communities
        Numbers to choose from.
    options
        Of ``fit``, in place of the full batch, 200 epochs, a step size of 0.5 and a tolerance of
        1e-5 nats per item.

    Examples
    --------
    >>> said = {"item": [0, 0, 0, 1, 1], "worker": list("abcab"), "label": list("xxyyy")}
    >>> result = infer_classes(CrowdData(None, labels=said), num_communities=[1])
    >>> result.class_probabilities.idxmax(axis=1).tolist()
    ['x', 'y']
    """
    if not num_communities:
        raise ValueError("num_communities is empty; pass one number or more")
    options = _DEFAULTS | options
    best: Fitted | None = None
    for number in num_communities:
        model = DawidSkene(CommunityConfusion(data.num_workers, data.num_classes, number))
        result = fit(model, ClassLabelGuide(model), data, **options)
        if best is None or result.elbo > best.elbo:
            best = result
    return best


def average_annotator_models(data: CrowdData, **options: Any) -> AveragedClasses:
    """The classes behind the labels of ``data``: the average of five models of the annotators.

    Two communities of confusion matrices; truth and habit; truth, habit and a confusion matrix;
    habit and a confusion matrix (``answer_sources``); easy and hard items (``class_states``).
    Temperatures and weights come from a fifth of the answers, which the first fit of each model
    does not see. It takes ten fits, and gives better probabilities than ``infer_classes``, but no
    intervals of the workers' confusion matrices.

    Parameters
    ----------
    data
        ``CrowdData(None, labels=frame)``; features are not used.
    options
        Of ``fit``, as for ``infer_classes``.

    Examples
    --------
    >>> said = {"item": [0, 0, 0, 1, 1, 1], "worker": list("abcabc"), "label": list("xxyyyx")}
    >>> result = average_annotator_models(CrowdData(None, labels=said), epochs=20)
    >>> result.class_probabilities.idxmax(axis=1).tolist()
    ['x', 'y']
    """
    options = _DEFAULTS | options

    def fit_each(part: CrowdData) -> list[Fitted]:
        models = map(DawidSkene, _annotator_models(part.num_workers, part.num_classes))
        return [fit(model, ClassLabelGuide(model), part, **options) for model in models]

    return average_classes(data, fit_each)


def _annotator_models(num_workers: int, num_classes: int) -> list[ClassAnnotators]:
    size = num_workers, num_classes
    return [
        CommunityConfusion(*size, 2),
        AnswerSources([Truth(*size), Habit(*size)]),
        AnswerSources([Truth(*size), Habit(*size), CommunityConfusion(*size, 1)]),
        AnswerSources([CommunityConfusion(*size, 1), Habit(*size)]),
        ClassStates(*size),
    ]
