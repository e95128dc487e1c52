"""Partitions of the components into at most so many clusters."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.partitions.joining import join_best

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
    gains, eta = (part.double().cpu() for part in (gain, prior))
    gains = gains.clone().fill_diagonal_(0)

    def joint_gains(member: Float[Tensor, "component cluster"], names: Tensor) -> Tensor:
        # What eta0 loses as the components of the second cluster take the name of the first. The
        # rest is as symmetric as it should be: rounding must not choose the name.
        by_name, between = member.mT @ eta[:, names], member.mT @ gains @ member
        return (between + between.mT) / 2 + (by_name.mT - by_name.diagonal())

    before = owners.argmax(1).cpu()
    cluster = join_best(before, joint_gains, fewest=max_clusters)
    names = cluster.unique()
    others = _least_tied(gains, eta, cluster)[: max_clusters - len(names)]
    possible = torch.cat([names, others]).to(prior.device)
    bounded = torch.full_like(prior, _IMPOSSIBLE)
    bounded[:, possible] = prior[:, possible]
    if torch.equal(cluster, before):
        return bounded, owners
    return bounded, nn.functional.one_hot(cluster, len(eta)).to(owners)


def _least_tied(
    gains: Float[Tensor, "component component"],
    eta: Float[Tensor, "component cluster"],
    cluster: Int[Tensor, " component"],
) -> Int[Tensor, " other"]:
    """Components after which no cluster is named, those first that lose least outside of theirs."""
    tie = (gains * (cluster == cluster[:, None])).sum(1)
    tie += eta.gather(1, cluster[:, None])[:, 0] - eta.diagonal()
    order = tie.argsort(stable=True)
    return order[~torch.isin(order, cluster)]
