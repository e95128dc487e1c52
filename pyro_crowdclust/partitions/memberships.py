"""Draws of a partition, matched to the clusters of a reference partition."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.partitions.asked_pairs import AskedPairs


class Memberships(NamedTuple):
    """How often items are in each cluster of a reference, as a sparse matrix.

    Attributes
    ----------
    item, cluster
        Item and cluster of every entry that is not zero.
    share
        The share of draws in which the item is in the cluster.
    alone
        For every item, the share of draws in which it is in none of the clusters.
    """

    item: Int[Tensor, " entry"]
    cluster: Int[Tensor, " entry"]
    share: Float[Tensor, " entry"]
    alone: Float[Tensor, " item"]

    @classmethod
    def of(cls, draws: Int[Tensor, "draw item"], reference: Int[Tensor, " item"]) -> Memberships:
        """Match the clusters of every draw to those of the reference.

        A cluster of a draw is the cluster of the reference of which it has more than half of the
        items; if there are several such, the one of which it has most items. Numbers of clusters
        are not comparable between draws.

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
        """The cluster in which each item is most often, or -1 for none of them, and its share."""
        order = self.share.argsort(stable=True)
        cluster = torch.full((len(self.alone),), -1)
        share = self.alone.clone()
        # Entries are written in order of their shares, so that the largest of an item remains.
        cluster[self.item[order]] = self.cluster[order]
        share[self.item[order]] = self.share[order]
        is_alone = self.alone > share
        return torch.where(is_alone, -1, cluster), torch.where(is_alone, self.alone, share)


def _names(
    draw: Int[Tensor, " item"], reference: Int[Tensor, " item"], num_clusters: int
) -> Int[Tensor, " drawn"]:
    """The cluster of the reference for every drawn cluster; -1 for those without a match."""
    codes, shared = torch.unique(draw * num_clusters + reference, return_counts=True)
    drawn, named = codes // num_clusters, codes % num_clusters
    # At most one drawn cluster can have more than half of a cluster of the reference.
    is_most = 2 * shared > torch.bincount(reference, minlength=num_clusters)[named]
    drawn, named, shared = drawn[is_most], named[is_most], shared[is_most]
    order = shared.argsort(stable=True)
    names = torch.full((int(draw.max()) + 1,), -1)
    # If a drawn cluster matches several of the reference, the one with most items is written last.
    names[drawn[order]] = named[order]
    return names


def share_together(
    draws: Int[Tensor, "draw item"], left: Int[Tensor, " pair"], right: Int[Tensor, " pair"]
) -> Float[Tensor, " pair"]:
    """Probability that two items are in one cluster, from S draws: ``(count + 1/2) / (S + 1)``.

    Half a pseudo-draw for either outcome keeps probabilities from being more certain than S draws
    can be.
    """
    counts = torch.zeros(len(left), dtype=torch.float64)
    for draw in draws:
        counts += draw[left] == draw[right]
    return (counts + 0.5) / (len(draws) + 1)


def share_of_strangers(draws: Int[Tensor, "draw item"], pairs: AskedPairs) -> float:
    """Probability that two items are in one cluster if no chain of pairs connects them.

        ( sum_{ij in U} P(z_i = z_j) + P_0 ) / ( n + 1 )

    is that of items that chains connect, the n pairs U, though nobody was asked about them. P_0 is
    the smallest probability that S draws allow, half a draw of S + 1.

    Parameters
    ----------
    draws
        Partitions; no cluster has items that no chain connects.
    pairs
        Random pairs, which were asked about.
    """
    together = sum(pairs.num_within(draw) - int(pairs.together(draw).sum()) for draw in draws)
    least = 0.5 / (len(draws) + 1)
    strangers = pairs.num_within(pairs.part) - pairs.num_pairs
    return (together / len(draws) + least) / (strangers + 1)
