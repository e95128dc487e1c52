"""Class labels that annotators gave to items: reading them, and products with them.

All that a model needs of the answers is two products with the sparse matrix S of counts, one row
per item and one column per (worker, label): ``S @ E[log gamma]``, the evidence of every item, and
``S^T q``, the expected counts of every worker. Time and memory are linear in the answers.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy  # whose parts are loaded when they are used
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust.data.alike import check_alike
from pyro_crowdclust.data.tables import (
    codes_and_ids,
    item_positions,
    reject,
    show,
    to_index,
    where,
)


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
    """

    item: Int[Tensor, " answer"]
    worker: Int[Tensor, " answer"]
    label: Int[Tensor, " answer"]
    num_workers: int
    num_classes: int

    def __len__(self) -> int:
        return len(self.item)

    def among(self, place: Int[Tensor, " item"]) -> ClassLabels:
        """Those about items that have a place, at this place; negative for none."""
        item = place[self.item]
        kept = item >= 0
        parts = item[kept], self.worker[kept], self.label[kept]
        return ClassLabels(*parts, self.num_workers, self.num_classes)

    @cached_property
    def cell(self) -> Int[Tensor, " answer"]:
        """``worker * num_classes + label``, the column of every answer in S."""
        return torch.add(self.label, self.worker, alpha=self.num_classes)

    @cached_property
    def _by_item(self) -> tuple[Tensor, Tensor]:
        """Cells sorted by item, and where each item's cells begin."""
        cell = self.cell
        if bool((self.item[1:] < self.item[:-1]).any()):
            cell = cell.index_select(0, self.item.argsort(stable=True))
        last = int(self.item.max()) + 1 if len(self) else 0
        counts = torch.bincount(self.item, minlength=last)
        return cell, torch.cat([counts.new_zeros(1), counts.cumsum(0)])

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
        cell, starts = self._by_item
        first, stop = (int(items[0]), int(items[-1]) + 1) if len(items) else (0, 0)
        if stop < len(starts) and torch.equal(items, torch.arange(first, first + len(items))):
            # Items in a row: their answers are in a row, too.
            counts = starts[first + 1 : stop + 1] - starts[first:stop]
            chosen = cell[int(starts[first]) : int(starts[stop])]
            return self._matrix(chosen, counts)
        known = items.clamp(max=len(starts) - 2)
        counts = starts[known + 1] - starts[known]
        # Items beyond the last one that was asked about have no answers.
        counts = torch.where(items == known, counts, 0)
        ends = counts.cumsum(0)
        total = int(ends[-1]) if len(ends) else 0
        shift = (starts[known] - ends + counts).repeat_interleave(counts, output_size=total)
        return self._matrix(cell.index_select(0, torch.arange(total) + shift), counts)

    def _matrix(self, cell: Int[Tensor, " answer"], counts: Int[Tensor, " row"]) -> LabelMatrix:
        sizes = self.num_workers, self.num_classes, self.most_per_item
        return LabelMatrix(cell, counts, *sizes)


class PaddedLabels(NamedTuple):
    """The answers of items as tables of equal columns, for Pyro's own plates and distributions.

    Attributes
    ----------
    worker, label
        Codes; zero where there is no answer.
    is_given
        Whether there is one.
    """

    worker: Int[Tensor, "place item"]
    label: Int[Tensor, "place item"]
    is_given: Bool[Tensor, "place item"]


class LabelMatrix:
    """Answers about some items as the sparse matrix S: rows are items, columns (worker, label).

    Parameters
    ----------
    cell
        ``worker * num_classes + label`` of every answer, item after item.
    counts
        How many answers each item has.
    num_workers, num_classes
        Sizes of the whole data.
    most_per_item
        The most answers that an item of the whole data has; None: that one here has.

    Examples
    --------
    >>> labels = LabelMatrix(torch.tensor([0, 3]), torch.tensor([1, 1]), 2, 2)
    >>> labels.votes()
    tensor([[1., 0.],
            [0., 1.]], dtype=torch.float64)
    """

    def __init__(
        self,
        cell: Int[Tensor, " answer"],
        counts: Int[Tensor, " item"],
        num_workers: int,
        num_classes: int,
        most_per_item: int | None = None,
    ) -> None:
        self.cell, self.counts = cell, counts
        self.num_workers, self.num_classes = num_workers, num_classes
        self.most_per_item = most_per_item

    def __len__(self) -> int:
        return len(self.cell)

    @property
    def num_items(self) -> int:
        """Rows, items without answers included."""
        return len(self.counts)

    @cached_property
    def item(self) -> Int[Tensor, " answer"]:
        """Row of the item of every answer."""
        rows = torch.arange(self.num_items, device=self.cell.device)
        return rows.repeat_interleave(self.counts, output_size=len(self))

    @cached_property
    def worker(self) -> Int[Tensor, " answer"]:
        """Code of the worker of every answer."""
        # NumPy divides integers by one number several times as fast as torch.
        quotient = self.cell.numpy(force=True) // self.num_classes
        return torch.from_numpy(quotient).to(self.cell.device)

    @cached_property
    def label(self) -> Int[Tensor, " answer"]:
        """Code of the class that every answer names."""
        return torch.sub(self.cell, self.worker, alpha=self.num_classes)

    @cached_property
    def matrix(self) -> scipy.sparse.csr_matrix:
        """S by rows."""
        shape = self.num_items, self.num_workers * self.num_classes
        # Narrow indices are read faster.
        integer = np.int32 if max(len(self), *shape) < 2**31 else np.int64
        starts = np.zeros(self.num_items + 1, dtype=integer)
        np.cumsum(self.counts.numpy(force=True), out=starts[1:])
        columns = self.cell.numpy(force=True).astype(integer)
        parts: Any = np.ones(len(self)), columns, starts
        return scipy.sparse.csr_matrix(parts, shape)

    def evidence(self, log_answers: Float[Tensor, "worker label state"]) -> Tensor:
        """``sum_j log p(a_ij | state)`` of every item and state, shape ``[item, state]``.

        Linear in ``log_answers``, so expectations of logarithms give the expectation.
        """
        return _Product.apply(log_answers.flatten(0, 1), self)

    def votes(self) -> Float[Tensor, "item label"]:
        """How many answers name each class."""
        cells = self.item * self.num_classes + self.label
        count = torch.bincount(cells, minlength=self.num_items * self.num_classes)
        return count.double().reshape(self.num_items, self.num_classes)

    def padded(self) -> PaddedLabels:
        """The answers as tables with a column per item, as long as the longest of all data.

        Examples
        --------
        >>> labels = LabelMatrix(torch.tensor([0, 3, 1]), torch.tensor([1, 2]), 2, 2)
        >>> labels.padded().label.tolist(), labels.padded().is_given.tolist()
        ([[0, 1], [0, 1]], [[True, True], [False, True]])
        """
        most = self.most_per_item
        if most is None:
            most = int(self.counts.max()) if self.num_items else 0
        starts = self.counts.cumsum(0) - self.counts
        place = torch.arange(len(self), device=self.cell.device) - starts[self.item]
        shape = max(most, 1), self.num_items
        tables = [self.cell.new_zeros(shape) for _ in range(3)]
        given = torch.ones_like(self.label)
        for table, values in zip(tables, (self.worker, self.label, given), strict=True):
            table[place, self.item] = values
        return PaddedLabels(tables[0], tables[1], tables[2].bool())

    def relabelled(self, label: Int[Tensor, " answer"]) -> LabelMatrix:
        """The same workers asked about the same items, with other answers."""
        cell = self.worker * self.num_classes + label
        sizes = self.num_workers, self.num_classes, self.most_per_item
        return LabelMatrix(cell, self.counts, *sizes)

    def to(self, device: torch.device | str | None) -> LabelMatrix:
        """The same matrix on another device."""
        if device is None or self.cell.device == torch.device(device):
            return self
        moved = self.cell.to(device), self.counts.to(device)
        return LabelMatrix(*moved, self.num_workers, self.num_classes, self.most_per_item)


class _Product(torch.autograd.Function):
    """``S @ dense`` with the gradient ``S^T @ gradient``.

    Both read the answers item after item. The second adds to the rows of a table that stays in the
    cache, which takes half the time of a product with the transpose by rows.
    """

    @staticmethod
    def forward(dense: Tensor, labels: LabelMatrix) -> Tensor:
        return _times(labels.matrix, dense)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        ctx.labels = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _times(ctx.labels.matrix.T, gradient), None


def _times(matrix: scipy.sparse.spmatrix, dense: Tensor) -> Tensor:
    """A product on the CPU, where it takes less time than torch's; for a tensor anywhere."""
    return torch.from_numpy(matrix @ dense.numpy(force=True)).to(dense)


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
        repeated, or fewer than two.

    Warns
    -----
    UserWarning
        For a class of ``classes`` that no answer names.
    """
    item = item_positions("labels", table["item"], item_ids)
    if classes is None:
        label, class_ids = codes_and_ids(table["label"], "labels")
        check_alike(class_ids, "labels")
    else:
        class_ids = _read_classes(classes)
        codes = class_ids.get_indexer(to_index(table["label"], "labels column 'label'"))
        known = ", ".join(map(show, class_ids[:5])) + (", ..." if len(class_ids) > 5 else "")
        reject("labels", table["label"], codes < 0, f"none of the classes ({known}); correct it")
        label = torch.from_numpy(codes.astype(np.int64))
        never = np.bincount(codes, minlength=len(class_ids)) == 0
        if never.any():
            warnings.warn(
                f"class {show(class_ids[int(never.argmax())])} is in no answer ({int(never.sum())} "
                "such classes): its probabilities come from the priors and the features alone",
                UserWarning,
                stacklevel=3,
            )
    if len(class_ids) < 2:
        raise ValueError(
            f"all labels are {show(class_ids[0])}, but there must be two classes: collect answers "
            "of another class, or name all that an item can have, in Python by classes="
        )
    return ClassLabels(item, worker, label, num_workers, len(class_ids)), class_ids


def _read_classes(classes: Iterable[Hashable]) -> pd.Index:
    ids = to_index(classes if isinstance(classes, Tensor) else list(classes), "classes")
    for bad, reason in ((ids.isna(), "which is missing"), (ids.duplicated(), "once more")):
        if bad.any():
            row = int(bad.argmax())
            raise ValueError(f"classes row {row} is {show(ids[row])}, {reason}; name each one once")
    if len(ids) == 0:
        raise ValueError("classes are empty; name every class an item can have, or pass None")
    return ids


def warn_about_repeated_labels(labels: ClassLabels, index: pd.Index) -> None:
    """Warn where a worker gives an item the same label again; answers that differ are data."""
    num_cells = labels.num_workers * labels.num_classes
    largest = (int(labels.item.max()) + 1) * num_cells
    # Sorting, of narrow numbers above all, is far faster than the hash table that finds the rows.
    one_number = labels.item.numpy().astype(np.min_scalar_type(largest))
    one_number *= num_cells
    np.add(one_number, labels.cell.numpy(), out=one_number, casting="unsafe")
    in_order = np.sort(one_number)
    if (in_order[1:] == in_order[:-1]).any():
        repeated = pd.Series(one_number).duplicated().to_numpy()
        warnings.warn(
            f"{where('labels', index, repeated)}: repeats an earlier answer (same item, worker and "
            "label); all are kept, remove them if they are copies",
            UserWarning,
            stacklevel=3,
        )
