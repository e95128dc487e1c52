"""The selection of items and answers for a batch, and its division among ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy  # whose parts are loaded when they are used
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.minibatches.pages import BatchPages


class RankPart(NamedTuple):
    """The ``rows`` of one rank in a batch with ``of`` items."""

    rows: Int[Tensor, " item"]
    of: int


@dataclass(frozen=True, eq=False)
class Selection:
    """Items and answers of a batch, by their positions in the data.

    Attributes
    ----------
    paired
        The items that occur in the answers, sorted: the first rows of the batch.
    others
        All other items.
    item_weight
        Inverse inclusion rate of every item.
    answers
        Positions of the answers about pairs, or of the pages if the data are sorted pages.
    left, right
        Pairs of items that answers connect, as rows of the batch: the two items of an answer; the
        first item of a page with each of the others.
    tie
        The answer, as a row of ``answers``, of every pair ``left`` and ``right``; None if the pairs
        are the answers.
    pair_weight
        Inverse inclusion rate of every answer.
    part
        The rows of this part in the batch that all ranks share; None if there is one rank.
    """

    paired: Int[Tensor, " paired"]
    others: Int[Tensor, " other"]
    item_weight: Float[Tensor, " item"]
    answers: Int[Tensor, " pair"]
    left: Int[Tensor, " tied"]
    right: Int[Tensor, " tied"]
    pair_weight: float
    part: RankPart | None = None
    tie: Int[Tensor, " tied"] | None = None

    @classmethod
    def of(
        cls,
        data: CrowdData,
        paired: Int[Tensor, " paired"],
        others: Int[Tensor, " other"],
        item_weight: Float[Tensor, " item"],
        answers: Int[Tensor, " pair"],
        pair_weight: float = 1.0,
    ) -> Selection:
        """Select answers, the ``paired`` items that occur in them, and other items."""
        left = right = answers
        if data.placements is not None:
            pages = BatchPages.of(data.placements, answers, paired)
            sizes = torch.bincount(pages.page, minlength=len(answers))
            left = pages.row[(sizes.cumsum(0) - sizes)[pages.page]]
            tied = paired, others, item_weight, answers, left, pages.row, pair_weight
            return cls(*tied, tie=pages.page)
        if data.answers is not None:
            # `index_select` is several times faster than indexing, and this runs in every step.
            left = torch.searchsorted(paired, data.answers.left.index_select(0, answers))
            right = torch.searchsorted(paired, data.answers.right.index_select(0, answers))
        return cls(paired, others, item_weight, answers, left, right, pair_weight)

    @property
    def items(self) -> Int[Tensor, " item"]:
        """Positions of all items, row by row."""
        return torch.cat([self.paired, self.others])

    def share(self, rank: int, count: int) -> Selection:
        """The part of one of ``count`` ranks, with ``count`` times the weights.

        The mean over ranks of a sum with these weights is the sum with the old ones. Items that
        answers connect stay together, since they send each other messages: connected components
        are assigned by decreasing size, each to the rank with the fewest answers so far. Then the
        other items are divided so that the numbers of rows are as equal as possible.
        """
        component = self._components()
        sizes = np.bincount(component[self.left.numpy()])
        load, owner = np.zeros(count, dtype=np.int64), np.zeros(len(sizes), dtype=np.int64)
        for one in np.argsort(-sizes, kind="stable"):
            owner[one] = load.argmin()
            load[owner[one]] += sizes[one]
        owner_of_row = torch.from_numpy(owner[component])
        held = torch.bincount(owner_of_row, minlength=count).numpy()
        start, stop = _filled_up(held, len(self.others))[rank : rank + 2].tolist()

        own_paired = (owner_of_row == rank).nonzero().squeeze(1)
        own_ties = (owner_of_row[self.left] == rank).nonzero().squeeze(1)
        own_answers, tie = (own_ties, None) if self.tie is None else _renumbered(self.tie[own_ties])
        num_paired, of = len(self.paired), len(self.paired) + len(self.others)
        rows = torch.cat([own_paired, torch.arange(num_paired + start, num_paired + stop)])
        weight = count * self.item_weight[rows]
        if not len(rows):
            # An item of weight zero, so that networks and distributions need not support empty
            # batches.
            rows, weight = torch.zeros(1, dtype=torch.int64), self.item_weight.new_zeros(1)
        items = self.items[rows]
        new_row = torch.cumsum(owner_of_row == rank, 0) - 1
        return Selection(
            paired=items[: len(own_paired)],
            others=items[len(own_paired) :],
            item_weight=weight,
            answers=self.answers[own_answers],
            left=new_row[self.left[own_ties]],
            right=new_row[self.right[own_ties]],
            pair_weight=count * self.pair_weight,
            part=RankPart(rows, of),
            tie=tie,
        )

    def _components(self) -> Int[np.ndarray, " paired"]:
        """The code of the connected component of every paired item."""
        ends = self.left.numpy(), self.right.numpy()
        edges = scipy.sparse.coo_array((np.ones(len(ends[0])), ends), shape=(len(self.paired),) * 2)
        if not len(self.paired):
            return np.empty(0, dtype=np.int64)
        return scipy.sparse.csgraph.connected_components(edges, directed=False)[1].astype(np.int64)


def _renumbered(codes: Int[Tensor, " tie"]) -> tuple[Tensor, Tensor]:
    """The codes that occur, sorted, and the position of each code among them."""
    held, position = codes.unique(return_inverse=True)
    return held, position


def _filled_up(held: Int[np.ndarray, " rank"], count: int) -> Int[np.ndarray, " bound"]:
    """Bounds of parts of ``count`` rows that, added to ``held``, make ranks as equal as can be."""
    # Ranks with fewer rows are filled up to a common level.
    level = ((np.sort(held).cumsum() + count) / np.arange(1, len(held) + 1)).min()
    missing = np.maximum(level - held, 0.0)
    return np.concatenate([[0], np.rint(missing.cumsum()).astype(np.int64)])
