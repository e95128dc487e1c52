"""Joins components to clusters where there are no answers that could say which belong together.

Joined are components that overlap so much that nobody could distinguish them, or, with known
labels, components of one class.
"""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust import Fitted
from pyro_crowdclust.interface.choosing.rereading import grouped
from pyro_crowdclust.mixture.overlap import groups_by_overlap
from pyro_crowdclust.results.cluster_classes import component_classes

# A component with fewer labels than this belongs to no class.
MIN_LABELS = 0.5


def with_overlaps_joined(result: Fitted) -> Fitted:
    """The result of a mixture without answers, with overlapping components in one cluster.

    Parameters
    ----------
    result
        A fit in which every component is a cluster.
    """
    return grouped(result, groups_by_overlap(result.component_probabilities))


def groups_by_class(result: Fitted) -> Int[Tensor, " component"]:
    """Groups of components of one known class: for each component the number of one in its group.

    A component belongs to class c if ``E[rho_kc] > 1/2`` and its labelled items add up to at least
    half an item. Others stay alone, as new kinds.
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
    """The result of a mixture with known labels, with all components of a class in one cluster."""
    return grouped(result, groups_by_class(result))
