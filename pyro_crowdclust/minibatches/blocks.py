"""Blocks of answers, which a minibatch draws together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.data.pair_answers import Answers
from pyro_crowdclust.errors import check_whole


class BlockMaker(Protocol):
    """Anything that puts every answer into exactly one block, with codes 0 to num_blocks - 1."""

    def __call__(self, answers: Answers, generator: torch.Generator) -> Int[Tensor, " pair"]:
        """Code of the block of each answer."""
        ...


@dataclass(frozen=True)
class PageBlocks:
    """One block per page.

    Raises
    ------
    ValueError
        When called on answers without pages.
    """

    def __call__(self, answers: Answers, generator: torch.Generator) -> Int[Tensor, " pair"]:
        """Code of the page of each answer."""
        if answers.page is None:
            raise ValueError(
                "the answers have no pages: add a column 'page' to pairs, or use ConnectedBlocks()"
            )
        return answers.page


@dataclass(frozen=True)
class SinglePairs:
    """Every answer is a separate block: uniform sampling of single pairs."""

    def __call__(self, answers: Answers, generator: torch.Generator) -> Int[Tensor, " pair"]:
        """Number of each answer."""
        return torch.arange(answers.num_pairs)


@dataclass(frozen=True)
class ConnectedBlocks:
    """Blocks of connected answers, for answers without pages.

    A block grows breadth first from a random item, along answers that are in no block yet, until
    it has ``num_items`` items or nothing is left to reach; it then takes all remaining answers
    among its items. This repeats until every answer has a block. An item may be in several blocks.

    Parameters
    ----------
    num_items
        The largest number of items in a block, at least 2.

    Examples
    --------
    >>> from pyro_crowdclust.data import CrowdData
    >>> pairs = {"left": [0, 1, 3], "right": [1, 2, 4], "worker": [0, 0, 0], "label": [1, 1, 0]}
    >>> answers = CrowdData(None, pairs).answers
    >>> codes = ConnectedBlocks()(answers, torch.Generator().manual_seed(0))
    >>> bool(codes[0] == codes[1]), bool(codes[0] == codes[2])
    (True, False)
    """

    num_items: int = 36

    def __post_init__(self) -> None:
        if self.num_items < 2:
            raise ValueError(f"num_items is {self.num_items}, but a block needs at least 2 items")

    def __call__(self, answers: Answers, generator: torch.Generator) -> Int[Tensor, " pair"]:
        """Code of the block of each answer."""
        items, ends = torch.stack([answers.left, answers.right]).unique(return_inverse=True)
        key = ends.amin(0) * len(items) + ends.amax(0)
        edges, edge_of_answer = key.unique(return_inverse=True)
        low, high = (edges // len(items)).tolist(), (edges % len(items)).tolist()

        # Random insertion orders make the seeds and the breadth-first search random.
        neighbours: dict[int, dict[int, int]] = {
            item: {} for item in torch.randperm(len(items), generator=generator).tolist()
        }
        for edge in torch.randperm(len(edges), generator=generator).tolist():
            neighbours[low[edge]][high[edge]] = edge
            neighbours[high[edge]][low[edge]] = edge

        block_of_edge = [0] * len(edges)
        block = 0
        while neighbours:
            for seed, others in neighbours.items():
                if others:
                    for edge in self._take_block(neighbours, seed):
                        block_of_edge[edge] = block
                    block += 1
            neighbours = {item: others for item, others in neighbours.items() if others}
        return torch.tensor(block_of_edge)[edge_of_answer]

    def _take_block(self, neighbours: dict[int, dict[int, int]], seed: int) -> list[int]:
        """Remove one block of edges from the graph and return it."""
        members, inside = [seed], {seed}
        for item in members:  # the list grows while it is read: breadth first
            for other in neighbours[item]:
                if len(members) == self.num_items:
                    break
                if other not in inside:
                    inside.add(other)
                    members.append(other)
        taken = []
        for item in members:
            for other in inside & neighbours[item].keys():
                taken.append(neighbours[item].pop(other))
                del neighbours[other][item]
        return taken


@dataclass(frozen=True)
class AnswerSampling:
    """Options by which minibatches draw answers.

    Attributes
    ----------
    answers_per_step
        The approximate number of answers in a step, which has whole blocks.
    blocks
        Which answers are drawn together: ``PageBlocks``, ``ConnectedBlocks``, ``SinglePairs`` or
        your own. None: pages if the data have them, otherwise connected blocks.

    Raises
    ------
    ValueError
        If ``answers_per_step`` is below 1.
    """

    answers_per_step: int = 2500
    blocks: BlockMaker | None = None

    def __post_init__(self) -> None:
        check_whole("answers_per_step", self.answers_per_step, least=1)
