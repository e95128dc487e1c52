"""Blocks of answers, which a minibatch draws together."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.data.pair_answers import Answers
from pyro_crowdclust.errors import check_whole


@dataclass(frozen=True)
class AnswerSampling:
    """Options by which minibatches draw answers.

    Attributes
    ----------
    answers_per_step
        The approximate number of answers in a step, which has whole blocks.

    Raises
    ------
    ValueError
        If ``answers_per_step`` is below 1.
    """

    answers_per_step: int = 2500

    def __post_init__(self) -> None:
        check_whole("answers_per_step", self.answers_per_step, least=1)


def connected_blocks(
    answers: Answers, num_items: int, generator: torch.Generator
) -> Int[Tensor, " pair"]:
    """The block of each answer, for answers without pages: codes 0, 1, 2, ...

    A block grows breadth first from a random item, along answers that are in no block yet, until
    it has ``num_items`` items or nothing is left to reach; it then takes all remaining answers
    among its items. This repeats until every answer has a block. An item may be in several blocks.

    Examples
    --------
    >>> from pyro_crowdclust.data import CrowdData
    >>> pairs = {"left": [0, 1, 3], "right": [1, 2, 4], "worker": [0, 0, 0], "label": [1, 1, 0]}
    >>> answers = CrowdData(None, pairs).answers
    >>> codes = connected_blocks(answers, 36, torch.Generator().manual_seed(0))
    >>> bool(codes[0] == codes[1]), bool(codes[0] == codes[2])
    (True, False)
    """
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
                for edge in _take_block(neighbours, seed, num_items):
                    block_of_edge[edge] = block
                block += 1
        neighbours = {item: others for item, others in neighbours.items() if others}
    return torch.tensor(block_of_edge)[edge_of_answer]


def _take_block(neighbours: dict[int, dict[int, int]], seed: int, num_items: int) -> list[int]:
    """Remove one block of edges from the graph and return it."""
    members, inside = [seed], {seed}
    for item in members:  # the list grows while it is read: breadth first
        for other in neighbours[item]:
            if len(members) == num_items:
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
