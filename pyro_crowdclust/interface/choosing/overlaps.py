"""Which components are one cluster where there are no answers to say so.

Those that nobody could tell apart, or, with known labels, those of one class.
"""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust import Fitted
from pyro_crowdclust.interface.choosing.rereading import grouped
from pyro_crowdclust.mixture.overlap import groups_by_overlap
from pyro_crowdclust.results.cluster_classes import component_classes

# A component with fewer labels than this is of no class.
MIN_LABELS = 0.5


def with_overlaps_joined(result: Fitted) -> Fitted:
    """The result of a mixture without answers, with clusters that own what overlaps."""
    return grouped(result, groups_by_overlap(result.component_probabilities))


def groups_by_class(result: Fitted) -> Int[Tensor, " component"]:
    """Groups of components of one known class, by the number of one of each group.

    A component is of a class if more than half of its posterior's class probability, ``E[rho_kc]``,
    and items with labels that add up to half of one say so. Others stay alone, as new kinds.
    """
    known = result.data.known
    assert known is not None  # as the caller has seen
    q = result.component_probabilities
    shares = torch.from_numpy(component_classes(result))
    labelled = q[known >= 0].sum(0) >= MIN_LABELS
    share, kind = shares.max(1)
    group = torch.arange(q.shape[1])
    for one in kind.unique():
        own = (labelled & (share > 0.5) & (kind == one)).nonzero().squeeze(1)
        if len(own):
            group[own] = own[0]
    return group


def with_classes_joined(result: Fitted) -> Fitted:
    """The result of a mixture with known labels, with clusters that own all of a class."""
    return grouped(result, groups_by_class(result))
