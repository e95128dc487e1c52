"""Workers who sort pages into groups, for clusters from sorted pages without features.

    shares ~ Dir                                       how common sorters of every spread are
    c_m | shares ~ Cat on ``SPREADS``                  the spread of worker m
    phi_pk ~ Dir(c_m / G_p, ..., c_m / G_p)            cluster k on a page p of worker m
    g_i | z_i = k ~ Cat(phi_pk)                        the group of every placement

A worker of a small spread puts the items of a cluster into one group of a page; one of an infinite
spread puts them anywhere. See ``partitions.urns``, where phi is summed out.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from pyro_crowdclust.distributions.priors import ConjugatePrior
from pyro_crowdclust.families import Dirichlet
from pyro_crowdclust.files.parts import described

# Each some three times the one before: two items of a cluster share one of five groups with a
# probability of .98, .93, .82, .6, .4, .27 and .2, which is chance.
SPREADS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, math.inf)
# Pseudo-counts of workers of every spread: most are careful.
_COUNTS = (2.0, 3.0, 3.0, 2.0, 1.0, 0.5, 0.5)


@described
class PageUrns(nn.Module):
    """Workers who sort pages, each with one of a few spreads; for the model ``SortedPartition``.

    Parameters
    ----------
    num_workers
        M.

    Examples
    --------
    >>> [*PageUrns(3).priors()]
    ['shares']
    """

    spreads = SPREADS

    def __init__(self, num_workers: int) -> None:
        super().__init__()
        self.num_workers = num_workers
        family = Dirichlet(len(SPREADS))
        counts = torch.tensor(_COUNTS, dtype=torch.float64)
        self.shares = ConjugatePrior(family, family.natural(counts), dims=("point",))

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global site of all workers, by name."""
        return {"shares": self.shares}
