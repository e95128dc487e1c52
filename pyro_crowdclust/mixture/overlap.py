"""Groups of components that overlap so much that their items are confused."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.partitions.joining import join_best


def groups_by_overlap(
    assignments: Float[Tensor, "item component"], threshold: float = 0.2
) -> Int[Tensor, " component"]:
    """Groups of components that are confused with each other; a group has the number of a member.

    With ``z^ = argmax_k q(z_i = k)``, the share of the items of k that would be assigned to l is

        p_kl = sum_{i: z^_i = l} q(z_i = k) / sum_i q(z_i = k)

    While the largest share is at least the threshold, its two components are joined, and q and p
    are computed again (Hennig 2010, DEMP).

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
    tensor([0, 0, 2])
    """
    q = assignments.double()

    def overlaps(member: Float[Tensor, "component group"], _: Tensor) -> Tensor:
        of_groups = q @ member
        given = nn.functional.one_hot(of_groups.argmax(1), member.shape[1]).double()
        overlap = given.mT @ of_groups / of_groups.sum(0).clamp_min(1e-9)
        return overlap.masked_fill(overlap < threshold, -torch.inf)

    return join_best(torch.arange(q.shape[1]), overlaps)
