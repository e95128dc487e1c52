"""How sure it is that the clusters of a result are kinds: other fits may divide or join them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class ClusterDoubt:
    """What W fits that describe the items about as well say of the components of a result.

        p(m | k, w) = sum_i q(z_i = k) q_w(z_i = m) / sum_i q(z_i = k)
        together_kl = sum_wm p(m | k, w) p(m | l, w) / W
        whole_k = sum_w p(m_kw | k, w) / W

    with m_kw the component of fit w that has most items of the cluster of k. All W fits count the
    same: they are those that the ELBO cannot tell from the best, not draws from a posterior.

    Attributes
    ----------
    together
        Probability that an item of component k and another of component l are of one kind, which is
        below 1 for k = l, too.
    whole
        Probability that an item of component k is of the kind that most of its cluster is of.
    """

    together: Float[Tensor, "component component"]
    whole: Float[Tensor, " component"]

    @classmethod
    def of(
        cls,
        assignments: Float[Tensor, "item component"],
        cluster: Int[Tensor, " component"],
        others: Sequence[Float[Tensor, "item other"]],
    ) -> ClusterDoubt:
        """The doubt that other fits to the same items cast on a result.

        Parameters
        ----------
        assignments
            q(z) of the result.
        cluster
            The cluster of every component.
        others
            q(z) of the other fits, whose components are kinds of their own.

        Examples
        --------
        Of two fits one divides the first of two clusters:

        >>> q = torch.eye(2).repeat_interleave(2, 0)
        >>> halves = torch.eye(3)[[0, 1, 2, 2]]
        >>> doubt = ClusterDoubt.of(q, torch.arange(2), [q, halves])
        >>> doubt.together.tolist(), doubt.whole.tolist()
        ([[0.75, 0.0], [0.0, 1.0]], [0.75, 1.0])
        """
        members = nn.functional.one_hot(cluster).to(assignments)
        together, whole = [], []
        for other in others:
            counts = assignments.mT @ other.to(assignments)
            # A component without items is never seen together with another.
            shares = counts / counts.sum(1, keepdim=True).clamp_min(1e-300)
            most = (members.mT @ counts).argmax(1)[cluster]
            together.append(shares @ shares.mT)
            whole.append(shares.gather(1, most.unsqueeze(1)).squeeze(1))
        return cls(torch.stack(together).mean(0), torch.stack(whole).mean(0))
