"""Clusters from sorted pages alone: no features, and any number of clusters.

    z ~ a prior of partitions                          which items are one cluster
    c_m | shares ~ Cat                                 the spread of worker m, summed out
    g | z, c ~ a Polya urn for every cluster on every page

Several clusters may share a group of a page, and different ones on different pages. Where a page
has items of thirteen kinds, and a worker makes five groups of them, the answers of all workers
together determine a finer partition than those of any single one. The likelihood of a page is that
of its placements, not of its pairs.
"""

from __future__ import annotations

import pyro
import torch
from jaxtyping import Int
from torch import Tensor, nn

from pyro_crowdclust.annotators import PageUrns
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import ConjugatePrior
from pyro_crowdclust.files import described
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.partitions import (
    AskedPairs,
    AskedPartition,
    FewClusters,
    PitmanYor,
    UrnGroups,
)


@described
class SortedPartition(nn.Module):
    """A Pyro model of sorted pages of items that have no features.

    Parameters
    ----------
    annotators
        Model of the workers.
    prior
        The prior of the clusters' sizes: ``FewClusters`` or ``PitmanYor``.

    Examples
    --------
    >>> [*SortedPartition(PageUrns(num_workers=3), FewClusters()).priors()]
    ['shares']
    """

    def __init__(self, annotators: PageUrns, prior: FewClusters | PitmanYor) -> None:
        super().__init__()
        self.annotators = annotators
        self.prior = prior

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites, by name."""
        return self.annotators.priors()

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data have sorted pages of these workers."""
        if data.placements is None:
            raise ValueError(
                "the data have no sorted pages, and this model uses nothing else: pass "
                "CrowdData(None, placements=...), or data.as_placements() of pairs on pages"
            )
        if self.annotators.num_workers != data.num_workers:
            raise ValueError(
                f"the annotators have {self.annotators.num_workers} workers, but the data have "
                f"{data.num_workers}: build the model with PageUrns(data.num_workers)"
            )

    def forward(self, batch: Batch) -> Int[Tensor, " item"]:
        """Run the model on a batch; returns the cluster of every item of the data."""
        shares = pyro.sample("shares", self.annotators.shares.distribution())
        paged = batch.paged_items
        nothing = torch.empty((0, 2), dtype=torch.int64)
        connections = (
            AskedPairs.of(nothing, batch.num_items) if paged is None else paged.connections
        )
        z = pyro.sample("z", AskedPartition(self.prior, connections))
        if paged is not None:
            groups = UrnGroups(paged, z, self.annotators.spreads, shares)
            pyro.sample("group", groups, obs=paged.pages.group)
        return z
