"""Clusters and co-membership probabilities that are computed from draws of a partition."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.partitions import (
    AskedPairs,
    Memberships,
    consensus,
    share_of_strangers,
    share_together,
)
from pyro_crowdclust.results.tables import drawn_pages_table, read_only

# Larger tables (800 MB) are refused; their rows can be read for some items at a time.
_MAX_NUMBERS = 10**8


@dataclass(frozen=True, eq=False)
class DrawnPartition:
    """Results from draws of a partition, at a cost that does not grow with the number of clusters.

    Attributes
    ----------
    draws
        Cluster of every item in every draw.
    random_pairs
        The pairs that people were asked about, if these were random. No draw joins items that no
        chain of them connects, whatever their probability (``share_of_strangers``).
    """

    draws: Int[Tensor, "draw item"]
    random_pairs: AskedPairs | None = None

    # An update draws the partition anew, and items have no q(x).
    keeps_start: ClassVar[bool] = False
    latent_means: ClassVar[None] = None

    @cached_property
    def labels(self) -> Int[Tensor, " item"]:
        """The cluster of every item in the consensus; cluster 0 is the largest."""
        return consensus(self.draws)

    @property
    def assignments(self) -> Int[np.ndarray, " item"]:
        """``labels`` as a read-only array."""
        return read_only(self.labels.numpy())

    @cached_property
    def _memberships(self) -> Memberships:
        return Memberships.of(self.draws, self.labels)

    @property
    def num_clusters(self) -> int:
        """Number of clusters of the consensus."""
        return int(self.labels.max()) + 1

    @cached_property
    def own_shares(self) -> Float[np.ndarray, " item"]:
        """The share of draws in which an item is in its own cluster."""
        found = self._memberships
        is_own = found.cluster == self.labels[found.item]
        own = torch.zeros(len(self.labels), dtype=torch.float64)
        own[found.item[is_own]] = found.share[is_own]
        return own.numpy()

    def probabilities(
        self, items: Int[np.ndarray, " item"] | None = None
    ) -> Float[np.ndarray, "item cluster"]:
        """Shares of draws in which an item is in each cluster, among draws in which it is in any.

        Parameters
        ----------
        items
            Positions of the items; default all.

        Raises
        ------
        ValueError
            If the table would have more than 10^8 numbers.
        """
        items = np.arange(len(self.labels)) if items is None else items
        if len(items) * self.num_clusters > _MAX_NUMBERS:
            raise ValueError(
                f"a table of {len(items)} items and {self.num_clusters} clusters is too large: "
                "read assignments, assignment_probabilities, same_cluster_probability, or "
                "cluster_probabilities of some items"
            )
        row = np.full(len(self.labels), -1)
        row[items] = np.arange(len(items))
        found = self._memberships
        wanted = row[found.item.numpy()] >= 0
        table = np.zeros((len(items), self.num_clusters))
        places = row[found.item.numpy()[wanted]], found.cluster.numpy()[wanted]
        table[places] = found.share.numpy()[wanted]
        # An item that is in no cluster in any draw is assigned to its consensus cluster.
        nowhere = np.flatnonzero(table.sum(1) == 0)
        table[nowhere, self.labels.numpy()[items[nowhere]]] = 1.0
        return table / table.sum(1, keepdims=True)

    def clusters(self) -> pd.DataFrame:
        """One row per cluster: expected and assigned items, share and weight."""
        labels, number = self.labels.numpy(), self.num_clusters
        item, cluster, each, _ = (part.numpy() for part in self._memberships)
        # The sums of ``probabilities``, without its table, which may be too large.
        somewhere = np.bincount(item, each, len(labels))
        expected = np.bincount(cluster, each / somewhere[item], number)
        expected += np.bincount(labels[somewhere == 0], minlength=number)
        assigned = np.bincount(labels, minlength=number)
        share = expected / expected.sum()
        return pd.DataFrame(
            {
                "expected_items": expected,
                "assigned_items": assigned,
                "share": share,
                "weight": share,
            },
            index=pd.RangeIndex(number, name="cluster"),
        )

    @cached_property
    def _share_of_strangers(self) -> float:
        assert self.random_pairs is not None  # as the caller has checked
        return share_of_strangers(self.draws, self.random_pairs)

    def same(
        self, left: Int[np.ndarray, " pair"], right: Int[np.ndarray, " pair"]
    ) -> Float[np.ndarray, " pair"]:
        """Probability that two items are in one cluster; 1 for an item and itself."""
        shares = share_together(self.draws, torch.from_numpy(left), torch.from_numpy(right))
        if self.random_pairs is not None:
            part = self.random_pairs.part
            shares[part[left] != part[right]] = self._share_of_strangers
        return np.where(left == right, 1.0, shares.numpy())

    def pages(self, data: CrowdData) -> pd.DataFrame | None:
        """One row per sorted page of the data, or None where there are none."""
        return None if data.placements is None else drawn_pages_table(self.draws, data)
