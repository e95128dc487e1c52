"""Class labels that workers gave to items: how they are stored, read and checked."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust.data.alike import check_alike
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.data.no_answers import may_say_nothing
from pyro_crowdclust.data.repeat_weights import repeat_weights
from pyro_crowdclust.data.repeats import look_copied
from pyro_crowdclust.data.tables import (
    codes_and_ids,
    item_positions,
    reject,
    to_index,
    where,
)
from pyro_crowdclust.errors import listed, show, warn

# More different fractions are hardly names of classes; and more classes than this, nine in ten of
# which are named once, are hardly classes at all.
_MAX_FRACTIONS, _MANY_CLASSES, _MOSTLY = 20, 100, 0.9


@dataclass(frozen=True, eq=False)
class ClassLabels:
    """Class answers in positions and codes, one row per answer.

    Attributes
    ----------
    item
        Position of the item in the data.
    worker, label
        Codes, indices into ``CrowdData.worker_ids`` and ``CrowdData.class_ids``.
    num_workers, num_classes
        How many workers and classes there are in all.
    weight
        As how many answers each counts, at most one (``repeat_weights``); None if all count in
        full, as where no worker has given several about an item.
    """

    item: Int[Tensor, " answer"]
    worker: Int[Tensor, " answer"]
    label: Int[Tensor, " answer"]
    num_workers: int
    num_classes: int
    weight: Float[Tensor, " answer"] | None = None

    def __len__(self) -> int:
        return len(self.item)

    def at(self, kept: Bool[Tensor, " answer"]) -> ClassLabels:
        """The answers of some rows."""
        parts = self.item[kept], self.worker[kept], self.label[kept]
        weight = None if self.weight is None else self.weight[kept]
        return ClassLabels(*parts, self.num_workers, self.num_classes, weight)

    def among(self, place: Int[Tensor, " item"]) -> ClassLabels:
        """The answers about items whose place is not negative, with these places as items."""
        moved = replace(self, item=place[self.item])
        return moved.at(moved.item >= 0)

    @cached_property
    def cell(self) -> Int[Tensor, " answer"]:
        """``worker * num_classes + label``, the column of every answer in S."""
        return torch.add(self.label, self.worker, alpha=self.num_classes)

    @cached_property
    def _by_item(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Cells sorted by item, where each item's cells begin, and their weights."""
        cell, weight = self.cell, self.weight
        if bool((self.item[1:] < self.item[:-1]).any()):
            order = self.item.argsort(stable=True)
            cell = cell.index_select(0, order)
            weight = None if weight is None else weight[order]
        last = int(self.item.max()) + 1 if len(self) else 0
        counts = torch.bincount(self.item, minlength=last)
        return cell, torch.cat([counts.new_zeros(1), counts.cumsum(0)]), weight

    @property
    def weights(self) -> Float[Tensor, " answer"]:
        """As how many answers each counts."""
        return torch.ones(len(self), dtype=torch.float64) if self.weight is None else self.weight

    @property
    def size(self) -> float:
        """As how many answers all of them count."""
        return len(self) if self.weight is None else float(self.weight.sum())

    @cached_property
    def source(self) -> Int[Tensor, " answer"]:
        """``item * num_workers + worker``: the answers of one worker about one item have one."""
        return self.item * self.num_workers + self.worker

    @cached_property
    def is_first(self) -> Bool[Tensor, " answer"]:
        """Whether an answer is the first of its worker about its item; all are without weights."""
        if self.weight is None:
            return torch.ones(len(self), dtype=torch.bool)
        return torch.from_numpy(~pd.Series(self.source.numpy()).duplicated().to_numpy())

    @cached_property
    def most_per_item(self) -> int:
        """The most answers that any item has."""
        return int(self._by_item[1].diff().max()) if len(self) else 0

    @cached_property
    def labelled_items(self) -> Int[Tensor, " item"]:
        """Sorted positions of the items with at least one answer."""
        return torch.bincount(self.item).nonzero().squeeze(1)

    def of_items(self, items: Int[Tensor, " row"]) -> LabelMatrix:
        """All answers about these items, as a matrix with a row for each."""
        cell, starts, weight = self._by_item
        first, stop = (int(items[0]), int(items[-1]) + 1) if len(items) else (0, 0)
        if stop < len(starts) and torch.equal(items, torch.arange(first, first + len(items))):
            # The answers about consecutive items are consecutive, too.
            counts = starts[first + 1 : stop + 1] - starts[first:stop]
            chosen = slice(int(starts[first]), int(starts[stop]))
            return self._matrix(cell[chosen], counts, None if weight is None else weight[chosen])
        known = items.clamp(max=len(starts) - 2)
        counts = starts[known + 1] - starts[known]
        # Items after the last one that anybody was asked about have no answers.
        counts = torch.where(items == known, counts, 0)
        ends = counts.cumsum(0)
        total = int(ends[-1]) if len(ends) else 0
        shift = (starts[known] - ends + counts).repeat_interleave(counts, output_size=total)
        place = torch.arange(total) + shift
        of_place = None if weight is None else weight[place]
        return self._matrix(cell.index_select(0, place), counts, of_place)

    def _matrix(
        self,
        cell: Int[Tensor, " answer"],
        counts: Int[Tensor, " row"],
        weight: Float[Tensor, " answer"] | None,
    ) -> LabelMatrix:
        sizes = self.num_workers, self.num_classes, self.most_per_item
        return LabelMatrix(cell, counts, *sizes, weight)


def read_class_labels(
    table: pd.DataFrame,
    item_ids: pd.Index,
    worker: Int[Tensor, " answer"],
    num_workers: int,
    classes: Iterable[Hashable] | None,
) -> tuple[ClassLabels, pd.Index]:
    """The answers of a table ``item, worker, label`` in codes, and the class ids.

    Raises
    ------
    ValueError
        Naming the row: an unknown item, a label outside ``classes``; or classes that are missing,
        repeated, or fewer than two. Without ``classes``, also if there are more than 20 different
        numbers between 0 and 1, or more than 100 classes of which nine in ten are named once.

    Warns
    -----
    UserWarning
        For a class of ``classes`` that no answer names, and, without them, for labels that say
        "can't tell", are -1 beside two others, or look like probabilities.
    """
    item = item_positions("labels", table["item"], item_ids)
    if classes is None and getattr(table["label"].dtype, "ordered", False):
        classes = table["label"].cat.categories
    if classes is None:
        label, class_ids = codes_and_ids(table["label"], "labels")
        _check_are_classes(label, class_ids)
        check_alike(class_ids, "labels")
        _warn_of_probabilities(class_ids)
        _warn_of_cannot_tell(class_ids)
    else:
        class_ids = _read_classes(classes)
        found = class_ids.get_indexer(to_index(table["label"], "labels column 'label'"))
        new = (
            f"not among the classes ({listed(class_ids)}); correct it, or fit anew with classes= "
            "naming it"
        )
        reject("labels", table["label"], found < 0, new)
        label = torch.from_numpy(found.astype(np.int64))
        never = np.bincount(found, minlength=len(class_ids)) == 0
        if never.any():
            warn(
                f"class {show(class_ids[int(never.argmax())])} is in no answer ({int(never.sum())} "
                "such classes): its probabilities come from the priors and the features alone"
            )
    if len(class_ids) < 2:
        raise ValueError(
            f"all labels are {show(class_ids[0])}, but there must be at least two classes: collect "
            "answers of another class, or name all that an item can have (in Python by classes=)"
        )
    codes = item, worker, label, num_workers, len(class_ids)
    return ClassLabels(*codes, repeat_weights(*codes)), class_ids


def _check_are_classes(label: Int[Tensor, " answer"], class_ids: pd.Index) -> None:
    """Raise a ``ValueError`` for labels that no two answers share, such as scores or texts."""
    number = len(class_ids)
    if number > _MAX_FRACTIONS and len(fractions := _fractions(class_ids)):
        raise ValueError(
            f"labels have {number} different values, numbers between 0 and 1 such as "
            f"{show(fractions[0])}: if they are probabilities, pass them to "
            "pooling.combine_soft_answers, or round them; if each of them is a class, name all "
            "(in Python by classes=)"
        )
    once = int((torch.bincount(label) == 1).sum())
    if number > _MANY_CLASSES and once > _MOSTLY * number:
        raise ValueError(
            f"labels have {number} different values, {once} of which are given once, such as "
            f"{show(class_ids[0])}: pass names of classes that several answers share; "
            "probabilities go to pooling.combine_soft_answers; if each value is a class, name all "
            "(in Python by classes=)"
        )


def _fractions(class_ids: pd.Index) -> pd.Index:
    """The classes between 0 and 1, if all are numbers from 0 to 1."""
    if class_ids.dtype.kind != "f" or not ((class_ids >= 0) & (class_ids <= 1)).all():
        return class_ids[:0]
    return class_ids[(class_ids > 0) & (class_ids < 1)]


def _warn_of_probabilities(class_ids: pd.Index) -> None:
    """Warn of classes that look like probabilities of a single class."""
    if len(between := _fractions(class_ids)):
        warn(
            f"labels such as {show(between[0])} are numbers between 0 and 1, and count as "
            f"{len(class_ids)} classes: if they are probabilities, pass them to "
            "pooling.combine_soft_answers, or round them"
        )


def _warn_of_cannot_tell(class_ids: pd.Index) -> None:
    """Warn of classes whose names mean "can't tell", or -1, which often stands for no answer."""
    found = [name for name in class_ids if may_say_nothing(name)]
    # Beside a single other class, it is the name of one, as in -1 and 1.
    if class_ids.dtype.kind in "if" and len(class_ids) > 2:
        found += [name for name in class_ids if name == -1]
    if found:
        warn(
            f"labels that are {' or '.join(map(show, found))} count as a class: drop their rows "
            "if they mean that the worker cannot tell, or gave no answer; otherwise name all "
            "classes (in Python by classes=)"
        )


def _read_classes(classes: Iterable[Hashable]) -> pd.Index:
    if not isinstance(classes, Iterable) or isinstance(classes, str | bytes):
        raise ValueError(
            f"classes is {classes!r}, but must name every class an item can have, as a list"
        )
    ids = to_index(classes, "classes").rename(None)
    reasons = (ids.isna(), "which is missing"), (ids.duplicated(), "which is there already")
    for bad, reason in reasons:
        if bad.any():
            row = int(bad.argmax())
            raise ValueError(f"classes row {row} is {show(ids[row])}, {reason}; name each one once")
    if len(ids) == 0:
        raise ValueError("classes are empty; name every class an item can have, or pass None")
    return ids.copy(deep=True)  # as of item ids


def repeated_labels(labels: ClassLabels) -> Bool[np.ndarray, " answer"]:
    """Which answers repeat an earlier one: same item, worker and label."""
    num_cells = labels.num_workers * labels.num_classes
    largest = (int(labels.item.max()) + 1) * num_cells
    # Sorting, above all of narrow integers, is far faster than the hash table that finds the rows.
    one_number = labels.item.numpy().astype(np.min_scalar_type(largest))
    one_number *= num_cells
    np.add(one_number, labels.cell.numpy(), out=one_number, casting="unsafe")
    in_order = np.sort(one_number)
    if (in_order[1:] == in_order[:-1]).any():
        return pd.Series(one_number).duplicated().to_numpy()
    return np.zeros(len(labels), dtype=bool)


def message_about_repeated_labels(
    index: pd.Index, repeated: Bool[np.ndarray, " row"], in_full: bool = False
) -> str:
    """The warning about rows of a table that repeat earlier labels.

    ``in_full`` if all count, as those of the only worker do.
    """
    counted = (
        "since there is one worker only, all count as if others had given them: remove them if "
        "they are copies, or name who answered"
        if in_full
        else "the more a worker repeats what they said, the more such answers count together as one"
    )
    return (
        f"{where('labels', index, repeated)}: repeats an earlier answer (same item, worker and "
        f"label); {counted}"
    )


def warn_about_repeated_labels(labels: ClassLabels, index: pd.Index) -> None:
    """Warn where labels look like copies of earlier ones, and say how they count."""
    repeated = repeated_labels(labels)
    if look_copied(repeated):
        message = message_about_repeated_labels(index, repeated, labels.weight is None)
        warn(message)
