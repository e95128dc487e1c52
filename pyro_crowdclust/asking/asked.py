"""What everybody was asked already."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData


class Asked:
    """Who was asked what: to place items on pages, to label them, and about pairs.

    Parameters
    ----------
    data
        Whose answers these are.
    """

    def __init__(self, data: CrowdData) -> None:
        self.num_items = data.num_items
        nobody = torch.empty(0, dtype=torch.int64)
        placed, labelled, compared, pairs = (nobody,) * 4
        if data.placements is not None:
            worker = data.placements.worker[data.placements.page]
            placed = worker * data.num_items + data.placements.item
        if data.class_labels is not None:
            labelled = data.class_labels.worker * data.num_items + data.class_labels.item
        if (answers := data.answers) is not None:
            ends = torch.stack([answers.left, answers.right])
            compared = (answers.worker * data.num_items + ends).flatten()
            key = torch.from_numpy(self.pair_keys(answers.left.numpy(), answers.right.numpy()))
            pairs = answers.worker * data.num_items**2 + key
            if answers.page is not None:  # whose pairs are what sorting it says
                placed = compared
        self._placed, self._labelled, self._pairs = map(_sorted, (placed, labelled, pairs))
        self._items = _sorted(torch.cat([placed, labelled, compared]))

    def heard(self, reliability: Float[np.ndarray, " worker"]) -> Float[np.ndarray, " item"]:
        """``1 - prod_m (1 - r_m)`` over the workers who were asked about an item."""
        worker, item = np.divmod(self._items, self.num_items)
        missed = np.log1p(-np.clip(reliability, 0.0, 1 - 1e-9))
        return -np.expm1(np.bincount(item, missed[worker], minlength=self.num_items))

    def pair_keys(
        self, left: Int[np.ndarray, " pair"], right: Int[np.ndarray, " pair"]
    ) -> Int[np.ndarray, " pair"]:
        """One number for a pair, either way round."""
        return np.minimum(left, right) * self.num_items + np.maximum(left, right)

    def to_place(
        self, worker: Int[np.ndarray, "*question"], item: Int[np.ndarray, "*question"]
    ) -> Bool[np.ndarray, "*question"]:
        """Whether workers, by their codes, had items on a page."""
        return (worker >= 0) & _is_in(self._placed, worker * self.num_items + item)

    def to_label(
        self, worker: Int[np.ndarray, "*question"], item: Int[np.ndarray, "*question"]
    ) -> Bool[np.ndarray, "*question"]:
        """Whether they labelled items."""
        return (worker >= 0) & _is_in(self._labelled, worker * self.num_items + item)

    def pairs(
        self, worker: Int[np.ndarray, "*question"], key: Int[np.ndarray, "*question"]
    ) -> Bool[np.ndarray, "*question"]:
        """Whether they were asked about pairs."""
        return (worker >= 0) & _is_in(self._pairs, worker * self.num_items**2 + key)


def _sorted(keys: Int[Tensor, " answer"]) -> Int[np.ndarray, " key"]:
    return np.unique(keys.numpy())


def _is_in(keys: Int[np.ndarray, " key"], wanted: Int[np.ndarray, "*question"]) -> np.ndarray:
    if not len(keys):
        return np.zeros(wanted.shape, dtype=bool)
    place = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return keys[place] == wanted
