"""Joins components to clusters where there are no answers that could say which belong together.

Joined are components that overlap so much that nobody could distinguish them, or, with known
labels, components of one class.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust import Fitted
from pyro_crowdclust.interface.choosing.rereading import grouped
from pyro_crowdclust.minibatches import items_alone
from pyro_crowdclust.mixture.overlap import groups_by_overlap
from pyro_crowdclust.pooling.comparison import SMALLEST_EVIDENCE
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

    A component may belong to class c if ``E[rho_kc] > 1/2`` and its labelled items add up to at
    least half an item. The one with the most labels does. With S those that do, another one, k,
    does if that makes the labelled items of the class clearly likelier,

        sum_{n: y_n = c} log p(x_n | S + k) - log p(x_n | S) > 3 nats,
        p(x | S) = sum_{j in S} pi_j p(x | theta_j) / sum_{j in S} pi_j:

    a kind without any label may overlap with the class, and have a label or two of it. Others stay
    alone, as new kinds.
    """
    known = result.data.needed_known
    q = result.component_probabilities
    shares = torch.from_numpy(component_classes(result))
    labels = q[known >= 0].sum(0)
    share, kind = shares.max(1)
    group = torch.arange(q.shape[1])
    for one in kind.unique():
        own = ((labels >= MIN_LABELS) & (share > 0.5) & (kind == one)).nonzero().squeeze(1)
        if len(own) > 1:
            own = own[labels[own].argsort(descending=True, stable=True)]
            items = (known == one).nonzero().squeeze(1)
            own = _clearly_of_class(own, _log_joint(result, items), q.sum(0).log())
            group[own] = own[0]
    return group


def _log_joint(result: Fitted, items: Int[Tensor, " item"]) -> Float[Tensor, "item component"]:
    """``log pi_k + log p(x_n | theta_k)`` of some items, up to a constant for each of them."""
    batch = items_alone(result.data.with_parts(known=None), items)
    logits: Tensor = result.guide.infer(batch.to(result.device, torch.float64)).logits
    return logits.double().cpu()


def _clearly_of_class(
    components: Int[Tensor, " own"],
    log_joint: Float[Tensor, "item component"],
    log_sizes: Float[Tensor, " component"],
) -> Int[Tensor, " kept"]:
    """The components of a class of which its items are clearly likelier with than without them."""

    def log_density(some: Int[Tensor, " some"]) -> float:
        return float((log_joint[:, some].logsumexp(1) - log_sizes[some].logsumexp(0)).sum())

    kept = components[:1]
    for place in range(1, len(components)):
        more = torch.cat([kept, components[place : place + 1]])
        if log_density(more) - log_density(kept) > SMALLEST_EVIDENCE:
            kept = more
    return kept


def with_classes_joined(result: Fitted) -> Fitted:
    """The result of a mixture with known labels, with the components of a class in one cluster."""
    return grouped(result, groups_by_class(result))
