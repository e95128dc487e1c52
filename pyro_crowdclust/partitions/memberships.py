"""Draws of a partition, read against one partition of reference."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Memberships(NamedTuple):
    """In how many draws items are in which cluster of a reference: entries that are not zero.

    Attributes
    ----------
    item, cluster
        Which entries.
    share
        The share of the draws.
    alone
        Of every item the share of draws in which it is in none of the clusters.
    """

    item: Int[Tensor, " entry"]
    cluster: Int[Tensor, " entry"]
    share: Float[Tensor, " entry"]
    alone: Float[Tensor, " item"]

    @classmethod
    def of(cls, draws: Int[Tensor, "draw item"], reference: Int[Tensor, " item"]) -> Memberships:
        """Every draw's clusters by the names of the reference.

        A cluster of a draw is that of the reference of which it has more than half of the items; if
        there are several, the one of which it has most. Numbers of clusters mean nothing from one
        draw to the next.

        Examples
        --------
        >>> draws = torch.tensor([[0, 0, 1], [1, 1, 0], [2, 0, 1]])
        >>> Memberships.of(draws, torch.tensor([0, 0, 1])).share.round(decimals=2)
        tensor([0.6700, 0.6700, 1.0000], dtype=torch.float64)
        """
        num_items, num_clusters = len(reference), int(reference.max()) + 1
        found = []
        for draw in draws:
            name = _names(draw, reference, num_clusters)[draw]
            item = (name >= 0).nonzero().squeeze(1)
            found.append(item * num_clusters + name[item])
        codes, counts = torch.unique(torch.cat(found), return_counts=True)
        item, share = codes // num_clusters, counts.double() / len(draws)
        alone = 1 - share.new_zeros(num_items).index_add(0, item, share)
        return cls(item, codes % num_clusters, share, alone.clamp_min(0.0))

    def likeliest(self) -> tuple[Int[Tensor, " item"], Float[Tensor, " item"]]:
        """The cluster in which each item is most often, and its share; -1 if in none oftener."""
        order = self.share.argsort(stable=True)
        cluster = torch.full((len(self.alone),), -1)
        share = self.alone.clone()
        # Of entries of one item the last that is written is the largest.
        cluster[self.item[order]] = self.cluster[order]
        share[self.item[order]] = self.share[order]
        is_alone = self.alone > share
        return torch.where(is_alone, -1, cluster), torch.where(is_alone, self.alone, share)


def _names(
    draw: Int[Tensor, " item"], reference: Int[Tensor, " item"], num_clusters: int
) -> Int[Tensor, " drawn"]:
    """The reference's name of every drawn cluster; -1 for those that it does not have."""
    codes, shared = torch.unique(draw * num_clusters + reference, return_counts=True)
    drawn, named = codes // num_clusters, codes % num_clusters
    # More than half of a cluster is in one place at most.
    is_most = 2 * shared > torch.bincount(reference, minlength=num_clusters)[named]
    drawn, named, shared = drawn[is_most], named[is_most], shared[is_most]
    order = shared.argsort(stable=True)
    names = torch.full((int(draw.max()) + 1,), -1)
    # Of clusters of the reference that are one in the draw the largest part is written last.
    names[drawn[order]] = named[order]
    return names


def share_together(
    draws: Int[Tensor, "draw item"], left: Int[Tensor, " pair"], right: Int[Tensor, " pair"]
) -> Float[Tensor, " pair"]:
    """Probability that two items are in one cluster, from S draws: ``(count + 1/2) / (S + 1)``.

    Half a draw for either keeps a probability from being more certain than the draws can tell.
    """
    counts = torch.zeros(len(left), dtype=torch.float64)
    for draw in draws:
        counts += draw[left] == draw[right]
    return (counts + 0.5) / (len(draws) + 1)
