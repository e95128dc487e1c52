"""Components that nobody could tell apart are one cluster, where there are no answers to say so."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust import Fitted
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import Ownership
from pyro_crowdclust.models import SemiCrowdsourcedMixture

# Joined clusters are sure: log q(c_k) of the owner less that of any other.
_SURE = 50.0


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


@torch.no_grad()
def with_overlaps_joined(result: Fitted) -> Fitted:
    """The result of a mixture without answers, with clusters that own what overlaps."""
    model = result.model
    group = groups_by_overlap(result.component_probabilities)
    if len(group.unique()) == len(group):
        return result
    other = SemiCrowdsourcedMixture(
        model.weights,
        model.components,
        model.emission,
        sum_out_assignments=model.sum_out_assignments,
        ownership=Ownership(len(group)),
    )
    guide = MessagePassingGuide(other)
    guide.posteriors.load_state_dict(result.guide.posteriors.state_dict(), strict=False)
    owners = _SURE * nn.functional.one_hot(group, len(group)).double()
    guide.posteriors["owners"].set_natural_parameters(owners)
    return replace(result, model=other, guide=guide)
