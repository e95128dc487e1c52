"""The evidence of answers about pairs for which components are one cluster."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

# The maximal number of updates of each component.
_MAX_SWEEPS = 10


class PairOwners(NamedTuple):
    """``sum_{k<l} G_kl <c_k, c_l>``, the part of the bound that depends on pair answers and on c.

    Attributes
    ----------
    gain
        G: what the answers gain if two components are one cluster, symmetric; the diagonal is
        ignored. See ``answer_gain``.
    """

    gain: Float[Tensor, "component component"]

    @property
    def between(self) -> Float[Tensor, "component component"]:
        """G."""
        return self.gain

    def slope(
        self, owners: Float[Tensor, "component cluster"]
    ) -> Float[Tensor, "component cluster"]:
        """Zero: all evidence is between two components."""
        return torch.zeros_like(owners)

    def bound(self, owners: Float[Tensor, "component cluster"]) -> float:
        """What the answers add to the bound, without the part that does not depend on c."""
        return float((self.gain * (owners @ owners.mT)).triu(1).sum())


def best_owners(
    gain: Float[Tensor, "component component"],
    prior: Float[Tensor, "component cluster"],
    start: Float[Tensor, "component cluster"],
) -> Float[Tensor, "component cluster"]:
    """log q(c), unnormalized, of a maximum of ``sum_{k<l} G_kl <c_k, c_l> + <c, eta0> + H(c)``.

    Coordinate ascent, ``log q(c_k) = eta0_k + sum_l G_kl q(c_l)``, component by component.

    Parameters
    ----------
    gain
        G: what the answers gain if two components are one cluster, symmetric; the diagonal is
        ignored. See ``answer_gain``.
    prior
        eta0.
    start
        q(c) to begin with.

    Examples
    --------
    >>> gain = torch.tensor([[0.0, 9.0, -9.0], [9.0, 0.0, -9.0], [-9.0, -9.0, 0.0]])
    >>> best_owners(gain, torch.eye(3), torch.eye(3)).argmax(1)
    tensor([1, 1, 2])
    """
    # NumPy, since rows as short as these take torch several times as long.
    between, eta, owners = (part.double().numpy(force=True).copy() for part in (gain, prior, start))
    np.fill_diagonal(between, 0)
    logits = eta.copy()
    for _ in range(_MAX_SWEEPS):
        before = owners.copy()
        for one in range(len(between)):
            logits[one] = eta[one] + between[one] @ owners
            weight = np.exp(logits[one] - logits[one].max())
            owners[one] = weight / weight.sum()
        if (np.abs(owners - before) <= 1e-6 + 1e-5 * before).all():
            break
    return torch.from_numpy(logits).to(prior)
