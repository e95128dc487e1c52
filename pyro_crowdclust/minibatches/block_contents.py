"""The answers and items in each block of answers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.data.pair_answers import Answers
from pyro_crowdclust.data.placements import Placements


@dataclass(frozen=True, eq=False)
class _Ragged:
    """Rows of unequal length, one after the other in ``values``."""

    values: Int[Tensor, " value"]
    starts: Int[Tensor, " row"]
    lengths: Int[Tensor, " row"]

    @staticmethod
    def group(values: Int[Tensor, " value"], row: Int[Tensor, " value"], num_rows: int) -> _Ragged:
        lengths = torch.bincount(row, minlength=num_rows)
        return _Ragged(values[row.argsort(stable=True)], lengths.cumsum(0) - lengths, lengths)

    def take(self, rows: Int[Tensor, " taken"]) -> Int[Tensor, " value"]:
        """The values of these rows, concatenated."""
        lengths = self.lengths[rows]
        ends = lengths.cumsum(0)
        total = int(ends[-1])
        shift = self.starts[rows] - ends + lengths
        where = torch.arange(total) + shift.repeat_interleave(lengths, output_size=total)
        return self.values.index_select(0, where)


class BlockContents:
    """The answers and the items of every block, and in how many blocks each item is.

    Parameters
    ----------
    codes
        The block of every answer: 0, 1, 2, ... without gaps.
    held
        ``block * num_items + item`` of every item in every block.
    num_items
        The number of items.
    """

    def __init__(
        self, codes: Int[Tensor, " answer"], held: Int[Tensor, " held"], num_items: int
    ) -> None:
        self.codes = codes
        self.count = int(codes.max()) + 1
        self.answers = _Ragged.group(torch.arange(len(codes)), codes, self.count)
        held = held.unique()
        self.items = _Ragged.group(held % num_items, held // num_items, self.count)
        self._annotated, self._num_holding = (held % num_items).unique(return_counts=True)

    @classmethod
    def of_pairs(
        cls, codes: Int[Tensor, " answer"], answers: Answers, num_items: int
    ) -> BlockContents:
        """Blocks of answers about pairs."""
        ends = torch.cat([answers.left, answers.right])
        return cls(codes, codes.repeat(2) * num_items + ends, num_items)

    @classmethod
    def of_pages(cls, placements: Placements, num_items: int) -> BlockContents:
        """Every sorted page is a block, and its only answer."""
        codes = torch.arange(placements.num_pages)
        return cls(codes, placements.page * num_items + placements.item, num_items)

    def num_holding(self, items: Int[Tensor, " item"]) -> Int[Tensor, " item"]:
        """How many blocks hold each of these items."""
        return self._num_holding[torch.searchsorted(self._annotated, items)]
