"""Partitions of the components into at most so many clusters."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

# log p(c_k) of names that no component can have; its exponential is 0.
_IMPOSSIBLE = -1000.0


def within_bound(
    gain: Float[Tensor, "component component"],
    prior: Float[Tensor, "component cluster"],
    owners: Float[Tensor, "component cluster"],
    max_clusters: int,
) -> tuple[Float[Tensor, "component cluster"], Float[Tensor, "component cluster"]]:
    """eta0 with at most so many possible clusters, and a q(c) that has no others.

    If q(c) has more, the two are joined that lose least, one pair after the other. If it has fewer,
    the components that are tied least to theirs may also be clusters of their own.

    Parameters
    ----------
    gain
        G, what the answers gain if two components are one cluster; its diagonal is not read.
    prior
        eta0.
    owners
        q(c).
    max_clusters
        The bound.

    Examples
    --------
    >>> gain = torch.tensor([[0.0, -1.0, -9.0], [-1.0, 0.0, -9.0], [-9.0, -9.0, 0.0]])
    >>> within_bound(gain, torch.eye(3), torch.eye(3), 2)[1].argmax(1)
    tensor([0, 0, 2])
    """
    gains, eta = (part.double().numpy(force=True).copy() for part in (gain, prior))
    np.fill_diagonal(gains, 0)
    before = owners.argmax(1).numpy(force=True)
    cluster = _joined(gains, eta, before, max_clusters)
    names = np.unique(cluster)
    possible = np.append(names, _least_tied(gains, eta, cluster)[: max_clusters - len(names)])
    bounded = torch.full_like(prior, _IMPOSSIBLE)
    bounded[:, possible] = prior[:, possible]
    if (cluster == before).all():
        return bounded, owners
    return bounded, nn.functional.one_hot(torch.from_numpy(cluster), len(eta)).to(owners)


def _joined(
    gains: Float[np.ndarray, "component component"],
    eta: Float[np.ndarray, "component cluster"],
    cluster: Int[np.ndarray, " component"],
    max_clusters: int,
) -> Int[np.ndarray, " component"]:
    """Clusters of the components, of which the two that lose least are joined while too many.

    Two lose ``sum_{k in one, l in other} G_kl``, and what eta0 loses as one of them takes the name
    of the other.
    """
    names, group = np.unique(cluster, return_inverse=True)
    while len(names) > max_clusters:
        member = np.eye(len(names))[group]
        by_name = member.T @ eta[:, names]
        renamed = by_name - by_name.diagonal()[:, None]
        joint = member.T @ gains @ member + np.maximum(renamed, renamed.T)
        np.fill_diagonal(joint, -np.inf)
        one, other = np.unravel_index(joint.argmax(), joint.shape)
        if renamed[one, other] <= renamed[other, one]:
            one, other = other, one
        names, group = np.unique(
            np.where(group == one, names[other], names[group]), return_inverse=True
        )
    return names[group]


def _least_tied(
    gains: Float[np.ndarray, "component component"],
    eta: Float[np.ndarray, "component cluster"],
    cluster: Int[np.ndarray, " component"],
) -> Int[np.ndarray, " other"]:
    """Components after which no cluster is named, those first that lose least outside of theirs."""
    tie = (gains * (cluster == cluster[:, None])).sum(1)
    tie += np.take_along_axis(eta, cluster[:, None], 1)[:, 0] - eta.diagonal()
    order = tie.argsort(kind="stable")
    return order[~np.isin(order, cluster)]
