"""Minibatches of items and answers whose weighted sums are unbiased.

Items without answers are drawn singly. Answers are drawn in blocks, such as whole pages, because
many answers about an item at once determine its cluster, and a single one hardly does. Every item
and every answer has the inverse of its inclusion rate as a weight, so that

    E[Σ_batch weight_i f(i)] = Σ_data f(i)        for items as well as for answers.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator

import torch
from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.errors import check_whole
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.block_contents import BlockContents
from pyro_crowdclust.minibatches.blocks import connected_blocks
from pyro_crowdclust.minibatches.item_order import Others
from pyro_crowdclust.minibatches.making import (
    constant_weights,
    no_codes,
    shared_batch,
    with_supervision,
)
from pyro_crowdclust.minibatches.processes import Ranks
from pyro_crowdclust.minibatches.selection import Selection

# The largest number of items in a block of answers without pages: as many as on a usual page.
_ITEMS_IN_BLOCK = 36


class MinibatchSampler:
    """Unbiased minibatches: single items without answers, whole blocks of answers.

    Blocks are pages, if the answers have them; otherwise ``connected_blocks``, anew in every epoch.

    A step draws p of the B blocks without replacement, with all their answers and items, and a
    random part of the U items without answers. The weights are

        answer                 B / p
        item with answers      (B / p) (drawn blocks that hold it) / (blocks that hold it)
        item without answers   U / size of the part
        pair without answers   U (U - 1) / (u (u - 1))

    with p = answers_per_step over the mean number of answers in a block, rounded, and u the size of
    the part; the last weight is that of two items without answers that share a label or a link. An
    epoch is one pass over the items without answers, or over the blocks if every item has answers.

    Parameters
    ----------
    data
        Items and answers.
    batch_size
        The approximate number of items without answers in a step.
    answers_per_step
        The approximate number of answers in a step; a sorted page of n items counts as
        n (n - 1) / 2.
    generator
        Source of all randomness. Its state is advanced by the constructor and by every epoch.

    Raises
    ------
    ValueError
        For sizes below 1.

    Examples
    --------
    >>> pairs = {"left": [0, 1], "right": [1, 2], "worker": ["a", "a"], "label": [1, 0]}
    >>> data = CrowdData(torch.eye(7), pairs)
    >>> sampler = MinibatchSampler(data, batch_size=2, generator=torch.Generator().manual_seed(0))
    >>> for batch in sampler:
    ...     print(batch, batch.item_weight.tolist())
    Batch(5 of 7 items, 3 of them in 2 answers) [1.0, 1.0, 1.0, 2.0, 2.0]
    Batch(5 of 7 items, 3 of them in 2 answers) [1.0, 1.0, 1.0, 2.0, 2.0]
    """

    def __init__(
        self,
        data: CrowdData,
        *,
        batch_size: int = 128,
        answers_per_step: int = 2500,
        generator: torch.Generator,
    ) -> None:
        check_whole("batch_size", batch_size, least=1)
        check_whole("answers_per_step", answers_per_step, least=1)
        self.data = data
        self.answers_per_step = answers_per_step
        self.generator = generator
        self._unpaired = Others(data)
        self._blocks: BlockContents | None = None
        self._renew_blocks()
        if len(self._unpaired):
            self._num_steps = max(1, round(len(self._unpaired) / batch_size))
        else:
            blocks = self._blocks
            assert blocks is not None  # if all items have answers, there are answers
            self._num_steps = math.ceil(blocks.count / self._blocks_per_step(blocks))

    def __len__(self) -> int:
        """Steps in an epoch; fixed, although the number of blocks may vary between epochs."""
        return self._num_steps

    def __iter__(self) -> Iterator[Batch]:
        """One epoch."""
        return self.epoch(Ranks())

    def epoch(self, ranks: Ranks) -> Iterator[Batch]:
        """One epoch: the part of this process in every minibatch."""
        self._renew_blocks()
        parts = self._unpaired.shuffled_parts(self.data, len(self), self.generator)
        blocks = self._blocks
        draws: Iterator[Tensor] = itertools.repeat(no_codes())
        if blocks is not None:
            draws = _cycle(blocks.count, self._blocks_per_step(blocks), self.generator)
        for part, drawn in zip(parts, draws, strict=False):
            yield self._step(blocks, drawn, part, ranks)

    def holds(self, items: Int[Tensor, " item"]) -> bool:
        """Whether every minibatch has all of these items, for any division into blocks."""
        is_answered = torch.isin(items, self.data.annotated_items)
        blocks = self._blocks
        every_block = blocks is None or self._blocks_per_step(blocks) == blocks.count
        every_other = len(self._unpaired) == 0 or len(self) == 1
        return (every_block or not bool(is_answered.any())) and (
            every_other or bool(is_answered.all())
        )

    def sample(self, num_items: int, seed: int) -> list[Batch]:
        """Minibatches like those of an epoch, until they have ``num_items`` items or it ends.

        They are drawn with separate random numbers, so that training is not affected.
        """
        own = copy.copy(self)
        own.generator = torch.Generator().manual_seed(seed)
        drawn: list[Batch] = []
        for batch in own:
            drawn.append(batch)
            if sum(len(batch.items) for batch in drawn) >= num_items:
                break
        return drawn

    def _renew_blocks(self) -> None:
        answers, placements = self.data.answers, self.data.placements
        if placements is not None and self._blocks is None:
            self._blocks = BlockContents.of_pages(placements, self.data.num_items)
        if answers is None:
            return
        if answers.page is not None:
            codes = answers.page
        else:
            codes = connected_blocks(answers, _ITEMS_IN_BLOCK, self.generator)
        # Blocks that stay the same, such as pages, are prepared only once.
        if self._blocks is None or not torch.equal(codes, self._blocks.codes):
            self._blocks = BlockContents.of_pairs(codes, answers, self.data.num_items)

    def _blocks_per_step(self, blocks: BlockContents) -> int:
        placements = self.data.placements
        num_pairs = self.data.num_pairs if placements is None else placements.num_pairs
        mean_size = max(num_pairs / blocks.count, 1.0)
        return min(max(round(self.answers_per_step / mean_size), 1), blocks.count)

    def _step(
        self, blocks: BlockContents | None, drawn: Tensor, part: Tensor, ranks: Ranks
    ) -> Batch:
        if len(part) == self.data.num_items:
            # A plate of all items has no indices: Pyro takes them as they are in the data.
            part = part.sort().values
        weight = constant_weights(len(part), len(self._unpaired) / max(len(part), 1))
        paired, chosen, scale = no_codes(), no_codes(), 1.0
        if blocks is not None:
            paired, num_drawn = blocks.items.take(drawn).unique(return_counts=True)
            scale = blocks.count / len(drawn)
            paired_weight = scale * (num_drawn.double() / blocks.num_holding(paired))
            weight = torch.cat([paired_weight, weight])
            chosen = blocks.answers.take(drawn)
        selection = Selection.of(self.data, paired, part, weight, chosen, scale)
        batch = shared_batch(self.data, selection, ranks)
        return self._with_neighbors(batch, len(self._unpaired), len(part))

    def _with_neighbors(self, batch: Batch, of: int, drawn: int) -> Batch:
        """Add labels and links, with weights of pairs among ``drawn`` out of ``of`` items."""
        scale = (of - 1) / (drawn - 1) if drawn > 1 else 1.0
        return with_supervision(self.data, batch, of / max(drawn, 1) * scale, scale)


def _cycle(count: int, size: int, generator: torch.Generator) -> Iterator[Int[Tensor, " drawn"]]:
    """Draw ``size`` of ``count`` without replacement, reshuffling when fewer are left."""
    while True:
        yield from torch.randperm(count, generator=generator).split(size)[: count // size]
