"""The graph of pairs that were compared, in sparse form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class AskedPairs:
    """Distinct pairs of items, and which answers are about each.

    Pairs that nobody was asked about are included if they are candidates, which are pairs whose
    ``likeness`` is known.

    Attributes
    ----------
    num_items
        N, the number of all items, asked about or not.
    left, right
        Positions of the two items, the smaller first.
    pair
        The number of the pair that every answer is about.

    Examples
    --------
    >>> asked = torch.tensor([[0, 1], [1, 0], [1, 2]])
    >>> pairs = AskedPairs.of(asked, num_items=4)
    >>> pairs.left.tolist(), pairs.right.tolist(), pairs.pair.tolist()
    ([0, 1], [1, 2], [0, 0, 1])
    >>> sorted(pairs.neighbors[1]), pairs.neighbors[3]
    ([0, 2], [])
    """

    num_items: int
    left: Int[Tensor, " pair"]
    right: Int[Tensor, " pair"]
    pair: Int[Tensor, " answer"]

    @classmethod
    def of(
        cls,
        items: Int[Tensor, "answer 2"],
        num_items: int,
        candidates: Int[Tensor, "candidate 2"] | None = None,
    ) -> AskedPairs:
        """The distinct pairs that answers are about, and candidates for sharing a cluster."""
        every = items if candidates is None else torch.cat([items, candidates])
        ends = every.sort(dim=1).values.cpu()
        codes, pair = torch.unique(ends[:, 0] * num_items + ends[:, 1], return_inverse=True)
        return cls(num_items, codes // num_items, codes % num_items, pair[: len(items)])

    def places(
        self, items: Int[Tensor, "other 2"]
    ) -> tuple[Int[Tensor, " found"], Bool[Tensor, " other"]]:
        """The numbers here of the given pairs that are among these, and which of them are."""
        ends = items.sort(dim=1).values.cpu()
        wanted = ends[:, 0] * self.num_items + ends[:, 1]
        codes = self.left * self.num_items + self.right
        # A last code above all others, so that there is one at every place.
        codes = nn.functional.pad(codes, (0, 1), value=self.num_items**2)
        place = torch.searchsorted(codes, wanted)
        is_there = codes[place] == wanted
        return place[is_there], is_there

    @property
    def num_pairs(self) -> int:
        """How many distinct pairs."""
        return len(self.left)

    @property
    def items(self) -> Int[Tensor, "pair 2"]:
        """Positions of the two items of each pair."""
        return torch.stack([self.left, self.right], 1)

    def total(self, of_answers: Float[Tensor, " answer *event"]) -> Float[Tensor, " pair *event"]:
        """Sums over the answers about each pair."""
        zeros = of_answers.new_zeros(self.num_pairs, *of_answers.shape[1:])
        return zeros.index_add(0, self.pair, of_answers)

    @property
    def num_answers(self) -> Float[Tensor, " pair"]:
        """How many answers are about each pair."""
        return torch.bincount(self.pair, minlength=self.num_pairs).double()

    def weights(self, of_answers: Float[Tensor, " answer"]) -> Float[Tensor, " pair"]:
        """The mean weight of the answers about each pair, 1 of pairs without answers."""
        number = self.num_answers
        return torch.where(number > 0, self.total(of_answers) / number.clamp_min(1.0), 1.0)

    @cached_property
    def items_in_pairs(self) -> Int[Tensor, " asked"]:
        """The items in at least one of the pairs, candidates included."""
        return torch.cat([self.left, self.right]).unique()

    def sizes(self, labels: Int[Tensor, " item"]) -> Float[Tensor, " cluster"]:
        """Sizes of the clusters, counting only items in pairs; empty clusters are left out."""
        sizes = torch.bincount(labels[self.items_in_pairs])
        return sizes[sizes > 0].double()

    def sizes_by_part(
        self, labels: Int[Tensor, " item"]
    ) -> tuple[Float[Tensor, " cluster"], Int[Tensor, " cluster"]]:
        """Sizes of the clusters as ``split``, and their parts, which are numbered in order."""
        items = self.items_in_pairs
        codes = self.part[items] * (int(labels.max()) + 1) + labels[items]
        codes, sizes = torch.unique(codes, return_counts=True)
        part = torch.unique(codes // (int(labels.max()) + 1), return_inverse=True)[1]
        return sizes.double(), part

    def together(self, labels: Int[Tensor, "*draw item"]) -> Bool[Tensor, "*draw pair"]:
        """Whether the two items of every pair are in one cluster."""
        return labels[..., self.left] == labels[..., self.right]

    def num_within(self, labels: Int[Tensor, " item"]) -> int:
        """``sum_k n_k (n_k - 1) / 2``: pairs of one cluster, asked about or not."""
        sizes = self.sizes(labels)
        return int((sizes * (sizes - 1)).sum()) // 2

    @cached_property
    def edges(self) -> tuple[Tensor, Tensor, Tensor]:
        """Edges sorted by item: where those of every item begin, their other ends and pairs."""
        ends = torch.cat([self.left, self.right])
        order = ends.argsort(stable=True)
        first = torch.searchsorted(ends[order], torch.arange(self.num_items + 1))
        others = torch.cat([self.right, self.left])[order]
        return first, others, order % max(self.num_pairs, 1)

    @cached_property
    def part(self) -> Int[Tensor, " item"]:
        """The connected component of every item in the graph of pairs."""
        from scipy import sparse
        from scipy.sparse.csgraph import connected_components

        ends = self.left.numpy(), self.right.numpy()
        graph = sparse.coo_array((np.ones(self.num_pairs), ends), (self.num_items,) * 2)
        part = connected_components(graph, directed=False)[1]
        return torch.as_tensor(part, dtype=torch.int64)

    def split(self, labels: Int[Tensor, " item"]) -> Int[Tensor, " item"]:
        """The clusters, split where no chain of pairs connects their items."""
        codes = self.part * (int(labels.max()) + 1) + labels
        return torch.unique(codes, return_inverse=True)[1]

    @cached_property
    def neighbors(self) -> list[list[int]]:
        """The items that each was compared with."""
        first, others, _ = self.edges
        return _split(others.tolist(), first.tolist())

    def by_item(self, weights: Float[Tensor, " pair"]) -> list[list[float]]:
        """Numbers of the pairs in the order of ``neighbors``."""
        first, _, pair = self.edges
        return _split(weights[pair].tolist(), first.tolist())


def _split(values: list, first: list[int]) -> list[list]:
    return [values[i:j] for i, j in zip(first[:-1], first[1:], strict=True)]
