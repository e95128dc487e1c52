"""Class labels as a sparse matrix, and products with it.

A model needs only two products with the sparse matrix S of counts, with one row per item and one
column per (worker, label): ``S @ E[log gamma]``, the evidence about every item, and ``S^T q``, the
expected counts of every worker. Time and memory are linear in the number of answers.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy  # loads its subpackages when they are first used
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


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
        The most answers about an item in the whole data; None: about an item in this matrix.
    weight
        As how many answers each counts (``data.repeat_weights``); None: as one.

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
        weight: Float[Tensor, " answer"] | None = None,
    ) -> None:
        self.cell, self.counts = cell, counts
        self.num_workers, self.num_classes = num_workers, num_classes
        self.most_per_item = most_per_item
        self.weight = weight

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
        """S by rows; answers are counted by their weights."""
        shape = self.num_items, self.num_workers * self.num_classes
        # Narrow indices are read faster.
        integer = np.int32 if max(len(self), *shape) < 2**31 else np.int64
        starts = np.zeros(self.num_items + 1, dtype=integer)
        np.cumsum(self.counts.numpy(force=True), out=starts[1:])
        columns = self.cell.numpy(force=True).astype(integer)
        weight = np.ones(len(self)) if self.weight is None else self.weight.numpy(force=True)
        parts: Any = weight, columns, starts
        return scipy.sparse.csr_matrix(parts, shape)

    def evidence(self, log_answers: Float[Tensor, "worker label state"]) -> Tensor:
        """``sum_j log p(a_ij | state)`` of every item and state, shape ``[item, state]``.

        Linear in ``log_answers``, so expectations of logarithms give the expectation.
        """
        return _Product.apply(log_answers.flatten(0, 1), self)

    def per_item(self, of_answers: Float[Tensor, "answer column"]) -> Float[Tensor, "item column"]:
        """Sums over the answers about every item."""
        found = of_answers.new_zeros(self.num_items, of_answers.shape[1])
        return found.index_add(0, self.item, of_answers)

    @property
    def weights(self) -> Float[Tensor, " answer"]:
        """As how many answers each counts."""
        if self.weight is None:
            return torch.ones(len(self), dtype=torch.float64, device=self.cell.device)
        return self.weight

    def weighted(
        self, of_answers: Float[Tensor, "answer column"]
    ) -> Float[Tensor, "answer column"]:
        """The rows of a table, times the weights of their answers."""
        if self.weight is None:
            return of_answers
        return self.weight.to(of_answers).unsqueeze(-1) * of_answers

    @cached_property
    def size(self) -> Float[Tensor, " item"]:
        """As how many answers those about each item count."""
        if self.weight is None:
            return self.counts.double()
        return self.per_item(self.weight.unsqueeze(1)).squeeze(1)

    @cached_property
    def source(self) -> Int[Tensor, " answer"]:
        """A number for the worker and item of every answer, from 0 on."""
        if self.weight is None:
            return torch.arange(len(self), device=self.cell.device)
        return torch.unique(self.item * self.num_workers + self.worker, return_inverse=True)[1]

    def of_source(
        self, of_answers: Float[Tensor, "answer column"], same_label: bool = False
    ) -> Float[Tensor, "answer column"]:
        """Weighted sums over all answers of the same worker about the same item.

        With ``same_label`` over those that name the same class.
        """
        if self.weight is None:
            return of_answers
        group = self.source
        if same_label:
            both = group * self.num_classes + self.label
            group = torch.unique(both, return_inverse=True)[1]
        sums = torch.zeros_like(of_answers).index_add(0, group, self.weighted(of_answers))
        return sums[group]

    @cached_property
    def has_others(self) -> Bool[Tensor, " answer"]:
        """Whether another worker has an answer about the item, too."""
        if self.weight is None:
            return self.counts[self.item] > 1
        own = torch.bincount(self.source)[self.source]
        return self.counts[self.item] > own

    @cached_property
    def can_be_left_out(self) -> Bool[Tensor, " answer"]:
        """The first label of each worker about an item that another worker has labelled, too."""
        if self.weight is None:
            return self.has_others
        first = torch.full((int(self.source.max()) + 1,), len(self), device=self.cell.device)
        place = torch.arange(len(self), device=self.cell.device)
        first = first.scatter_reduce(0, self.source, place, "amin")
        return self.has_others & (first[self.source] == place)

    def votes(self) -> Float[Tensor, "item label"]:
        """As how many answers those about each item count that name each class."""
        cells = self.item * self.num_classes + self.label
        size = self.num_items * self.num_classes
        count = torch.bincount(cells, self.weight, minlength=size)
        return count.double().reshape(self.num_items, self.num_classes)

    def padded(self) -> PaddedLabels:
        """The answers as tables: a column per item, as many rows as one may have in the whole data.

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
        return LabelMatrix(cell, self.counts, *sizes, self.weight)

    def to(self, device: torch.device | str | None) -> LabelMatrix:
        """The same matrix on another device."""
        if device is None or self.cell.device == torch.device(device):
            return self
        weight = None if self.weight is None else self.weight.to(device)
        sizes = self.num_workers, self.num_classes, self.most_per_item
        return LabelMatrix(self.cell.to(device), self.counts.to(device), *sizes, weight)


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
    """A product by SciPy on the CPU, which is faster than torch's; for a tensor on any device."""
    return torch.from_numpy(matrix @ dense.numpy(force=True)).to(dense)
