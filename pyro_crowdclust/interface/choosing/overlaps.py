"""Which components are one cluster where there are no answers to say so.

Those that nobody could tell apart, or, with known labels, those of one class.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust import Fitted
from pyro_crowdclust.interface.choosing.rereading import grouped
from pyro_crowdclust.results.cluster_classes import component_classes

# A component with fewer labels than this is of no class.
LEAST_LABELS = 0.5


def groups_by_overlap(
    assignments: Float[Tensor, "item component"], threshold: float = 0.2
) -> Int[Tensor, " component"]:
    """Groups of components that are mistaken for each other, by the number of one of each group.

    With ``z^ = argmax_k q(z_i = k)``, the share of the items of k that would be given to l is

        p_kl = sum_{i: z^_i = l} q(z_i = k) / sum_i q(z_i = k)

    While the largest of them is at least the threshold its two components are joined, and q and p
    computed anew (Hennig 2010, DEMP).

    Parameters
    ----------
    assignments
        q(z).
    threshold
        In (0, 1].

    Examples
    --------
    >>> q = torch.tensor([[0.6, 0.4, 0.0], [0.4, 0.6, 0.0], [0.0, 0.0, 1.0]])
    >>> groups_by_overlap(q)
    tensor([1, 1, 2])
    """
    q = assignments.double().clone()
    group = torch.arange(q.shape[1])
    while True:
        given = nn.functional.one_hot(q.argmax(1), q.shape[1]).double()
        overlap = (q.mT @ given) / q.sum(0).clamp_min(1e-9).unsqueeze(1)
        overlap.fill_diagonal_(0)
        first, second = divmod(int(overlap.argmax()), len(overlap))
        if overlap[first, second] < threshold:
            return group
        q[:, second] += q[:, first]
        q[:, first] = 0
        group[group == first] = second


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
    labelled = q[known >= 0].sum(0) >= LEAST_LABELS
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
