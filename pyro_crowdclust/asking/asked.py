"""Questions that workers have already been asked, and questions with known answers."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.known_labels import joined_items


class Asked:
    """Which worker was asked which question: placements on pages, labels, and pairs.

    A worker who sorted a page was asked about all of its pairs. Answers that follow from known
    labels and links are not needed: the class of an item with a known label, or joined to one by
    must-links; whether two such items are the same; and whether linked items are.

    Parameters
    ----------
    data
        The data with the answers.
    """

    def __init__(self, data: CrowdData) -> None:
        self.num_items = data.num_items
        nobody = torch.empty(0, dtype=torch.int64)
        placed, labelled, compared = (nobody,) * 3
        worker, key = (nobody.numpy(),) * 2
        self._answers = np.empty(0, dtype=np.int64), np.empty(0)
        if data.placements is not None:
            sorter = data.placements.worker[data.placements.page]
            placed = sorter * data.num_items + data.placements.item
        self._labels, self._label_weights = (nobody.numpy(),) * 3, np.zeros(0)
        if (given := data.class_labels) is not None:
            self._labels = given.item.numpy(), given.worker.numpy(), given.label.numpy()
            self._label_weights = given.weights.numpy()
            labelled = given.worker * data.num_items + given.item
        if (answers := data.as_pairs().answers) is not None:
            worker = answers.worker.numpy()
            key = self.pair_keys(answers.left.numpy(), answers.right.numpy())
            label = answers.label.double().numpy()
            told = ~np.isnan(label)  # somebody may not be able to tell
            self._answers = key[told], label[told]
        if (answers := data.answers) is not None:
            ends = torch.stack([answers.left, answers.right])
            compared = (answers.worker * data.num_items + ends).flatten()
            if answers.page is not None:  # its pairs come from sorting it
                placed = compared
        self._placed, self._labelled = _sorted(placed), _sorted(labelled)
        # Pairs are numbered: workers times all possible pairs may be more than an integer holds.
        self._keys, place = np.unique(key, return_inverse=True)
        self._pairs = np.sort(worker * len(self._keys) + place)  # may be millions, with duplicates
        self._items = _sorted(torch.cat([placed, labelled, compared]))
        self._group, self._has_class, self._apart = _expert_knowledge(data)

    def answered(self, reliability: Float[np.ndarray, " worker"]) -> Float[np.ndarray, " item"]:
        """``1 - prod_m (1 - r_m)`` over the workers who were asked about an item; 1 if known."""
        worker, item = np.divmod(self._items, self.num_items)
        missed = np.log1p(-np.clip(reliability, 0.0, 1 - 1e-9))
        answered = -np.expm1(np.bincount(item, missed[worker], minlength=self.num_items))
        return np.where(self._has_class, 1.0, answered)

    @property
    def has_class(self) -> Bool[np.ndarray, " item"]:
        """Items whose class is known."""
        return self._has_class

    @property
    def labels(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Item, worker and class of every label, as codes."""
        return self._labels

    @property
    def label_weights(self) -> Float[np.ndarray, " label"]:
        """As how many answers each of them counts."""
        return self._label_weights

    def said_same(self) -> tuple[Int[np.ndarray, " pair"], Float[np.ndarray, " pair"]]:
        """Keys of all pairs with answers, and the share of "same"; a grade counts in part."""
        key, label = self._answers
        keys, place = np.unique(key, return_inverse=True)
        return keys, np.bincount(place, label, len(keys)) / np.bincount(place, minlength=len(keys))

    def is_settled(
        self, left: Int[np.ndarray, " pair"], right: Int[np.ndarray, " pair"]
    ) -> Bool[np.ndarray, " pair"]:
        """Whether known labels and links determine if two items are the same."""
        one, other = self._group[left], self._group[right]
        classes = self._has_class[left] & self._has_class[right]
        return (one == other) | classes | _is_in(self._apart, self.pair_keys(one, other))

    def pair_keys(
        self, left: Int[np.ndarray, " pair"], right: Int[np.ndarray, " pair"]
    ) -> Int[np.ndarray, " pair"]:
        """One number per pair, the same in either order."""
        return np.minimum(left, right) * self.num_items + np.maximum(left, right)

    def to_place(
        self, worker: Int[np.ndarray, "*question"], item: Int[np.ndarray, "*question"]
    ) -> Bool[np.ndarray, "*question"]:
        """Whether workers, given by their codes, had the items on a page."""
        return (worker >= 0) & _is_in(self._placed, worker * self.num_items + item)

    def to_label(
        self, worker: Int[np.ndarray, "*question"], item: Int[np.ndarray, "*question"]
    ) -> Bool[np.ndarray, "*question"]:
        """Whether workers labelled the items."""
        return (worker >= 0) & _is_in(self._labelled, worker * self.num_items + item)

    def pairs(
        self, worker: Int[np.ndarray, "*question"], key: Int[np.ndarray, "*question"]
    ) -> Bool[np.ndarray, "*question"]:
        """Whether workers were asked about the pairs, one by one or on a page."""
        asked = (worker >= 0) & _is_in(self._keys, key)
        place = np.searchsorted(self._keys, key)
        return asked & _is_in(self._pairs, worker * len(self._keys) + place)


def _expert_knowledge(
    data: CrowdData,
) -> tuple[Int[np.ndarray, " item"], Bool[np.ndarray, " item"], Int[np.ndarray, " key"]]:
    """Groups of items joined by must-links, whether their class is known, and cannot-links."""
    number = data.num_items
    group, apart = torch.arange(number), torch.empty(0, dtype=torch.int64)
    if (links := data.links) is not None:
        group = joined_items(links.left[links.must], links.right[links.must], number)
        ends = torch.stack([group[links.left], group[links.right]])[:, ~links.must]
        apart = ends.amin(0) * number + ends.amax(0)
    has_class = torch.zeros(number, dtype=torch.bool)
    if data.known is not None:
        has_class[group[data.known >= 0]] = True
    return group.numpy(), has_class[group].numpy(), _sorted(apart)


def _sorted(keys: Int[Tensor, " answer"]) -> Int[np.ndarray, " key"]:
    return np.unique(keys.numpy())


def _is_in(keys: Int[np.ndarray, " key"], wanted: Int[np.ndarray, "*question"]) -> np.ndarray:
    if not len(keys):
        return np.zeros(wanted.shape, dtype=bool)
    place = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return keys[place] == wanted
