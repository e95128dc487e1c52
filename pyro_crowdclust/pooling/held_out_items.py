"""How well a model of class labels predicts the labels of items that have no labels yet.

    mean over labels a of held-out items i of  log sum_k q(y_i = k) E[gamma_jk(a)]

with q and gamma of a fit that has seen the features of these items, but not their labels. It needs
no true classes, and compares what the bound cannot: different features, a weight of the features,
optimizers, prior scales.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float

from pyro_crowdclust.data.class_labels import ClassLabels
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.families import SMALLEST_PROBABILITY
from pyro_crowdclust.results.fitted import Fitted
from pyro_crowdclust.training.argument_checks import check_has_class_labels
from pyro_crowdclust.training.isolation import generator_of
from pyro_crowdclust.training.stopping import uninterrupted


def held_out_log_probability(
    data: CrowdData, fit_one: Callable[[CrowdData], Fitted], folds: int = 3, seed: int = 0
) -> float:
    """Mean log-probability, in nats, of an answer about an item whose answers were held out.

    Parameters
    ----------
    data
        Items with features and class labels.
    fit_one
        Function that fits the model to the data given to it: all items, with answers about some.
    folds
        Number of parts into which the labelled items are divided, and number of fits: each part is
        held out once.
    seed
        Seed of the division. Use the same for all candidates that are compared.

    Raises
    ------
    ValueError
        Without class labels, with fewer labelled items than parts, or fewer than two parts.

    Examples
    --------
    >>> from pyro_crowdclust import fit
    >>> from pyro_crowdclust.annotators import ConfusionMatrices
    >>> from pyro_crowdclust.guides import ClassLabelGuide
    >>> from pyro_crowdclust.mixture import MultinomialComponents
    >>> from pyro_crowdclust.models import MomResp
    >>> words = np.array([[4, 0, 1], [3, 1, 0], [0, 5, 1], [1, 4, 0]])
    >>> labels = {"item": [0, 1, 2, 3], "worker": [0, 0, 0, 0], "label": list("xxyy")}
    >>> model = MomResp(MultinomialComponents(2, 3), ConfusionMatrices(1, 2))
    >>> def fit_one(data):
    ...     return fit(model, ClassLabelGuide(model), data, epochs=9, progress=False)
    >>> found = held_out_log_probability(CrowdData(words, labels=labels), fit_one, folds=2)
    >>> -1.0 < found < 0
    True
    """
    total, count = 0.0, 0.0
    for seen, held in held_out_parts(data, folds, seed):
        result = uninterrupted(fit_one(seen))
        item, worker, label = (part.numpy() for part in (held.item, held.worker, held.label))
        named = result.answer_probabilities(item, worker, label)
        total += float(held.weights.numpy() @ np.log((result.probabilities[item] * named).sum(1)))
        count += held.size
    return total / count


def held_out_parts(data: CrowdData, folds: int, seed: int) -> list[tuple[CrowdData, ClassLabels]]:
    """For each part: all items with the answers about the other parts, and the held-out answers.

    Parameters
    ----------
    data, folds, seed
        As for ``held_out_log_probability``.
    """
    check_has_class_labels(data)
    labels = data.needed_class_labels
    items = labels.labelled_items
    if not 2 <= folds <= len(items):
        raise ValueError(
            f"folds is {folds}, but must be between 2 and {len(items)}, the number of labelled "
            "items: choose fewer parts, or label more items"
        )
    order = torch.randperm(len(items), generator=generator_of(seed))
    parts = []
    for fold in range(folds):
        out = torch.isin(labels.item, items[order[fold::folds]])
        seen = data.with_class_labels(labels.at(~out))
        parts.append((seen, labels.at(out)))
    return parts


def log_probabilities_by_item(result: Fitted, held: ClassLabels) -> Float[np.ndarray, "item other"]:
    """``log sum_k q(y_i = k) prod_a E[gamma_jk(a)]``: all held-out answers about an item jointly.

    Several answers about one item determine its class better than any single one, and so test q
    better jointly than one by one. The diagonal has the answers about the item itself; the other
    columns have those about every other item, as if they were about this one.

    Parameters
    ----------
    result
        A fit that has not used these answers, with annotators whose answers depend only on the
        class.
    held
        Answers about some items.
    """
    worker, label = held.worker.numpy(), held.label.numpy()
    items, place = np.unique(held.item.numpy(), return_inverse=True)
    named = result.answer_probabilities(items[place], worker, label)
    evidence = np.zeros((len(items), named.shape[1]))
    # If two trusted workers contradict each other, no class has a positive probability.
    log_named = held.weights.numpy()[:, None] * np.log(named.clip(SMALLEST_PROBABILITY))
    np.add.at(evidence, place, log_named)
    largest = evidence.max(1)
    q = np.asarray(result.probabilities)[items]
    return np.log((q @ np.exp(evidence.T - largest)).clip(SMALLEST_PROBABILITY)) + largest
