"""Class labels predicted from the others by fits that have not seen them (cross-validation)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Int

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.inference.left_out_labels import LeftOutLabels
from pyro_crowdclust.pooling.inferred_classes import InferredClasses

# Parts of the labels, each of which is held out once.
_FOLDS = 10


def cross_validated(
    fitted_to: Callable[[CrowdData], InferredClasses], data: CrowdData, seed: int = 0
) -> LeftOutLabels:
    """The labels that can be left out, each predicted by a fit without a tenth of the labels.

    Parameters
    ----------
    fitted_to
        Fits a model to the data given to it.
    data
        Items with class labels.
    seed
        Seed of the division into tenths (``folds_of``).
    """
    every = data.needed_class_labels
    labels = every.of_items(torch.arange(data.num_items))
    folds = folds_of(labels, seed)
    left_out = labels.can_be_left_out.numpy()
    classes = np.zeros((len(labels), labels.num_classes))
    named = np.zeros_like(classes)
    source = labels.source.numpy()
    row = every.item.argsort(stable=True)  # of every answer of the matrix
    for fold in range(_FOLDS):
        # An answer that is the only one about its item stays.
        held = left_out & (folds == fold)
        if not held.any():
            continue
        of_held = row[torch.from_numpy(np.isin(source, source[held]))]
        seen = torch.ones(len(every), dtype=torch.bool).index_fill(0, of_held, False)
        member = fitted_to(data.with_class_labels(every.at(seen)))
        item, worker, label = (
            part.numpy()[held] for part in (labels.item, labels.worker, labels.label)
        )
        classes[held] = member.probabilities[item]
        named[held] = member.answer_probabilities(item, worker, label)
    return LeftOutLabels(classes[left_out], named[left_out])


def folds_of(labels: LabelMatrix, seed: int) -> Int[np.ndarray, " answer"]:
    """A random fold of every answer: those about an item are spread over as many as possible.

    Those of one worker about an item have the same fold, unless they count as those of many people
    (``LabelMatrix.source``). It does not depend on the order of rows.
    """
    _, first, place = np.unique(labels.source.numpy(), return_index=True, return_inverse=True)
    parts = labels.item, labels.worker, labels.label
    item, worker, label = (part.numpy()[first] for part in parts)
    shuffled = np.empty(len(first))
    shuffled[np.lexsort((label, worker, item))] = np.random.default_rng(seed).random(len(first))
    fold = np.empty(len(first), dtype=int)
    fold[np.lexsort((shuffled, item))] = np.arange(len(first)) % _FOLDS
    return fold[place]
