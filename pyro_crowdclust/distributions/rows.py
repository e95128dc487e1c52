"""Rows: the pairs (item, cluster) with a nonzero assignment probability.

Latents that depend on the cluster, and network outputs for them, have a row for each such pair.
With a one-hot z there is one row per item; with probabilities, one for every entry that is not
zero, so that no time is spent on clusters that do not matter. A sparse matrix of assignments has
the rows that it stores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.families import IndependentMoments, Moments


@dataclass(frozen=True, eq=False)
class Rows:
    """Pairs of an item and a cluster, item by item, each with a weight.

    Attributes
    ----------
    item, cluster
        Item and cluster of every row.
    weight
        For every row, the probability that the item is in the cluster.
    num_items, num_clusters
        Total numbers, including those without rows.

    Examples
    --------
    >>> import torch
    >>> rows = Rows.of(torch.tensor([[0.0, 1.0], [0.25, 0.75]]))
    >>> rows.item.tolist(), rows.cluster.tolist(), rows.weight.tolist()
    ([0, 1, 1], [1, 0, 1], [1.0, 0.25, 0.75])
    >>> rows.total(torch.tensor([3.0, 4.0, 8.0]))
    tensor([3., 7.])
    """

    item: Int[Tensor, " row"]
    cluster: Int[Tensor, " row"]
    weight: Float[Tensor, " row"]
    num_items: int
    num_clusters: int

    @staticmethod
    def of(assignments: Float[Tensor, "item cluster"]) -> Rows:
        """The rows of all assignments that are not zero, or of all that a sparse matrix stores.

        Raises
        ------
        ValueError
            If z is enumerated.
        """
        if assignments.dim() != 2:
            raise ValueError(
                "z is enumerated, but latents here depend on the cluster and have rows for one z "
                "at a time: for diagnostics use to_arviz(log_likelihood=False)"
            )
        if assignments.is_sparse:
            item, cluster = assignments.indices()
            return Rows(item, cluster, assignments.values(), *assignments.shape)
        item, cluster = assignments.nonzero(as_tuple=True)
        return Rows(item, cluster, assignments[item, cluster], *assignments.shape)

    @staticmethod
    def every(num_items: int, num_clusters: int, like: Tensor) -> Rows:
        """All rows, with weight 1, in the dtype and on the device of ``like``."""
        return Rows.of(like.new_ones(num_items, num_clusters))

    def total(self, values: Float[Tensor, " row"]) -> Float[Tensor, " item"]:
        """``sum_k z_nk v_nk`` of every item."""
        weighted = self.weight.to(values.dtype) * values
        return values.new_zeros(self.num_items).index_add(0, self.item, weighted)

    def draw(
        self,
        moments: Moments | IndependentMoments,
        noise: Callable[[Tensor], Tensor] = torch.randn_like,
    ) -> Float[Tensor, "row dim"]:
        """Draws of the latent of every row, with common noise for all rows of an item.

        Clusters then differ by their distributions only, not by the noise. ``noise`` returns noise
        in the shape of a tensor: ``batch.noise`` where several processes share a batch.
        """
        of_items = noise(moments.mean.new_empty(self.num_items, moments.mean.shape[-1]))
        return moments.draw(of_items.index_select(0, self.item))

    @cached_property
    def _counts(self) -> Int[Tensor, " cluster"]:
        return torch.bincount(self.cluster, minlength=self.num_clusters)

    @cached_property
    def _places(self) -> Int[Tensor, " row"]:
        """Position of each row in a padded layout with equally many places for every cluster."""
        order = self.cluster.argsort(stable=True)
        first = self._counts.cumsum(0) - self._counts
        places = torch.empty_like(order)
        places[order] = torch.arange(len(order), device=order.device)
        return places + self.cluster * self._longest - first[self.cluster]

    @cached_property
    def _longest(self) -> int:
        return max(int(self._counts.max()), 1)

    def by_cluster(self, values: Float[Tensor, "row size"]) -> Float[Tensor, "cluster place size"]:
        """The rows grouped by cluster, padded with zeros to the longest group."""
        empty = values.new_zeros(self.num_clusters * self._longest, values.shape[-1])
        return empty.index_copy(0, self._places, values).unflatten(0, (self.num_clusters, -1))

    def by_row(self, values: Float[Tensor, "cluster place size"]) -> Float[Tensor, "row size"]:
        """Inverse of ``by_cluster``."""
        return values.flatten(0, 1).index_select(0, self._places)


def common_noise(seed: int) -> Callable[[Tensor], Tensor]:
    """Noise for ``Rows.draw`` that is common to all items and determined by the seed."""
    generator = torch.Generator().manual_seed(seed)

    def noise(like: Tensor) -> Tensor:
        drawn = torch.randn(like.shape[-1], generator=generator, dtype=like.dtype)
        return drawn.to(like.device).expand_as(like)

    return noise
