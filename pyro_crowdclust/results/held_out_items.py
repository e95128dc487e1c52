"""How well a model of class labels predicts what is said of items that nobody has labelled yet.

    mean over a, of items i in a part held out, of  log sum_k q(y_i = k) E[gamma_jk(a)]

with q and gamma of a fit that has seen the features of these items and not the answers about them.
It needs no truth and compares what the bound cannot: other features, a weight of the features, an
optimizer, a prior scale.
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
from pyro_crowdclust.training.isolation import generator_of
from pyro_crowdclust.training.stopping import whole


def held_out_log_probability(
    data: CrowdData, fit_one: Callable[[CrowdData], Fitted], folds: int = 3, seed: int = 0
) -> float:
    """Mean log-probability, in nats, of an answer about an item whose answers were held out.

    Parameters
    ----------
    data
        Items with features and class labels.
    fit_one
        Fits the model to the data that it is given: all items, with the answers about some.
    folds
        Parts of the labelled items, each held out once; as many fits.
    seed
        Of the parts. Candidates are compared on the same ones.

    Raises
    ------
    ValueError
        Without class labels, or with fewer labelled items than parts, or fewer than two parts.

    Examples
    --------
    >>> from pyro_crowdclust import fit
    >>> from pyro_crowdclust.annotators import ConfusionMatrices
    >>> from pyro_crowdclust.guides import ClassLabelGuide
    >>> from pyro_crowdclust.mixture import MultinomialComponents
    >>> from pyro_crowdclust.models import MomResp
    >>> words = np.array([[4, 0, 1], [3, 1, 0], [0, 5, 1], [1, 4, 0]])
    >>> said = {"item": [0, 1, 2, 3], "worker": [0, 0, 0, 0], "label": list("xxyy")}
    >>> model = MomResp(MultinomialComponents(2, 3), ConfusionMatrices(1, 2))
    >>> def fit_one(data):
    ...     return fit(model, ClassLabelGuide(model), data, epochs=9, progress=False)
    >>> found = held_out_log_probability(CrowdData(words, labels=said), fit_one, folds=2)
    >>> -1.0 < found < 0
    True
    """
    total, count = 0.0, 0
    for seen, held in held_out_parts(data, folds, seed):
        result = whole(fit_one(seen))
        item, worker, label = (part.numpy() for part in (held.item, held.worker, held.label))
        named = result.answer_probabilities(item, worker, label)
        total += float(np.log((result.probabilities[item] * named).sum(1)).sum())
        count += len(item)
    return total / count


def held_out_parts(data: CrowdData, folds: int, seed: int) -> list[tuple[CrowdData, ClassLabels]]:
    """All items with the answers about some of them, and the answers about the others.

    Parameters
    ----------
    data, folds, seed
        As for ``held_out_log_probability``.
    """
    labels = data.class_labels
    if labels is None:
        raise ValueError("the data have no class labels, of which some could be held out")
    items = labels.labelled_items
    if not 2 <= folds <= len(items):
        raise ValueError(
            f"folds is {folds}, but must be between 2 and {len(items)}, the labelled items: "
            "choose fewer parts, or label more items"
        )
    order = torch.randperm(len(items), generator=generator_of(seed))
    parts = []
    for fold in range(folds):
        out = torch.isin(labels.item, items[order[fold::folds]])
        seen = data.with_class_labels(labels.at(~out))
        parts.append((seen, labels.at(out)))
    return parts


def log_probabilities_by_item(result: Fitted, held: ClassLabels) -> Float[np.ndarray, "item other"]:
    """``log sum_k q(y_i = k) prod_a E[gamma_jk(a)]``: all answers about an item together.

    The fit has heard none of them. Several answers about one item name its class better than any
    of them does, and so tell more of q than one by one. On the diagonal are the answers about the
    item itself; beside it those about every other one, as if they were about this one.

    Parameters
    ----------
    result
        Of annotators whose answers depend on nothing but the class.
    held
        Answers about some items.
    """
    worker, label = held.worker.numpy(), held.label.numpy()
    items, place = np.unique(held.item.numpy(), return_inverse=True)
    named = result.answer_probabilities(items[place], worker, label)
    said = np.zeros((len(items), named.shape[1]))
    # Two trusted workers who contradict each other leave no class.
    np.add.at(said, place, np.log(named.clip(SMALLEST_PROBABILITY)))
    largest = said.max(1)
    of_items = np.asarray(result.probabilities)[items]
    return np.log((of_items @ np.exp(said.T - largest)).clip(SMALLEST_PROBABILITY)) + largest
