"""Workers who always give the same class label: they say nothing about the items.

The rule is stricter than that for pairs (``informative_workers``), by which nearly always is
enough: one other label in many may be right about a rare class, and confusion matrices weigh it,
while the rates for pairs cannot tell such a worker from clusters that are few or many.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust.data import CrowdData

# With fewer labels, a worker may have seen items of one class only.
_MIN_LABELS = 10
# Labels of such workers say nothing if, drawn like those of the others, they would be the same with
# no larger probability than this.
_BY_CHANCE = 0.001
# Fewer workers do not determine a prior of workers: under one that is learned from three, one of
# them is always right.
MIN_WORKERS = 5


def always_say_the_same(data: CrowdData) -> Bool[Tensor, " worker"]:
    """Whether each worker has given ten labels or more, all of which name the same class."""
    counts = _counts(data)
    number = counts.sum(1)
    return (counts.max(1).values == number) & (number >= _MIN_LABELS)


def few_workers_vary(data: CrowdData) -> bool:
    """Whether fewer than five workers are left without those who say the same of ten items or more.

    Under a prior that is learned from these few and from workers who always say the same, answers
    are certain in all classes, and so are the classes. False if there are no such workers.
    """
    number = int(always_say_the_same(data).sum())
    return number > 0 and data.num_workers - number < MIN_WORKERS


def say_nothing(data: CrowdData) -> Bool[Tensor, " worker"]:
    """Whether each worker ``always_say_the_same`` though the others do not.

    With p the share of a class among the labels of those who vary, n labels of this class are all
    the same by chance with probability p^n. Below .001 they show how the worker answers, and not
    what the items are.

    Parameters
    ----------
    data
        Items with class labels.

    Examples
    --------
    >>> said = {"item": [*range(12)] * 2, "worker": ["a"] * 12 + ["b"] * 12, "label": [0, 1] * 6}
    >>> said["label"] = said["label"] + [0] * 12
    >>> say_nothing(CrowdData(None, labels=said)).tolist()
    [False, True]
    """
    counts, is_constant = _counts(data), always_say_the_same(data)
    of_others = counts[~is_constant].sum(0)
    # One more label of each class, so that no share is 0 or 1 (Laplace).
    share = (of_others + 1) / (of_others.sum() + len(of_others))
    by_chance = share[counts.argmax(1)] ** counts.sum(1)
    return is_constant & (by_chance < _BY_CHANCE) & (of_others.sum() > 0)


def _counts(data: CrowdData) -> Float[Tensor, "worker label"]:
    labels = data.needed_class_labels
    counts = torch.zeros(data.num_workers, data.num_classes, dtype=torch.float64)
    return counts.index_put((labels.worker, labels.label), labels.weights, accumulate=True)
