"""The Pyro site of a partition."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.distributions.statistics import StatisticValued
from pyro_crowdclust.partitions.asked_pairs import AskedPairs
from pyro_crowdclust.partitions.protocols import PartitionPrior
from pyro_crowdclust.partitions.sweeps import sweep

# A draw from the prior takes this many sweeps, which begin with all items alone.
_SWEEPS = 20


class AskedPartition(StatisticValued):
    """p(z) of a partition of items that were compared: the cluster of every item, ``[N]``.

    Parameters
    ----------
    prior
        Prior of the partition.
    pairs
        The pairs that were compared.
    """

    has_rsample = False

    def __init__(self, prior: PartitionPrior, pairs: AskedPairs) -> None:
        self.prior, self.pairs = prior, pairs
        super().__init__(torch.Size(), torch.Size([pairs.num_items]))

    def sample(self, sample_shape: Any = ()) -> Int[Tensor, " item"]:
        """A draw by Gibbs sweeps, which begin with all items alone."""
        self._one_draw(sample_shape)
        labels = torch.arange(self.pairs.num_items)
        silent = torch.zeros(self.pairs.num_pairs, dtype=torch.float64)
        for _ in range(_SWEEPS):
            labels, _ = sweep(labels, self.pairs, silent, self.prior)
        return labels

    def log_prob(self, value: Int[Tensor, " item"]) -> Float[Tensor, ""]:
        return self.prior.log_prob(value, self.pairs)
