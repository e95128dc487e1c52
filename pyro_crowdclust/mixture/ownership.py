"""Clusters that consist of several components, since a human category is often not one Gaussian.

    c_k ~ Cat(a for c_k = k, (1 - a) / (K - 1) for all others)
    items i, j are in the same cluster if c_zi = c_zj

so that with ``B_kl = [c_k = c_l]`` the agreement of two items is ``z_i^T B z_j``: answers are about
clusters, features about components. With one component in every cluster, c_k = k, B is the
identity, and the model is the one without ownership.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.distributions.priors import ConjugatePrior
from pyro_crowdclust.errors import check_whole
from pyro_crowdclust.families.categorical import Categorical
from pyro_crowdclust.files.parts import described


@described
class Ownership(nn.Module):
    """The site ``owners``: which cluster every component belongs to.

    There are as many clusters as components, and every cluster is named after a component: a
    component without evidence about it is most probably a cluster of its own. The evidence of
    answers about c depends on all components together, so q(c) is not learned by gradient steps:
    the callback ``OwnershipMoves`` solves for it after every epoch, and without this callback q(c)
    stays at its prior.

    Parameters
    ----------
    num_components
        K.
    own
        a, the probability that a component is in the cluster of its name, in (0, 1).
    max_clusters
        An upper bound on the number of clusters: ``OwnershipMoves`` then keeps to partitions of the
        components into so many. None for no bound.

    Raises
    ------
    ValueError
        For fewer than two components, a probability outside of (0, 1), or a bound below 1.

    Examples
    --------
    >>> sorted(Ownership(3).priors())
    ['owners']
    """

    def __init__(
        self, num_components: int, own: float = 0.8, max_clusters: int | None = None
    ) -> None:
        super().__init__()
        if num_components < 2:
            raise ValueError(
                f"num_components is {num_components}, but ownership needs at least 2 components: "
                "leave the ownership out"
            )
        if not 0 < own < 1:
            raise ValueError(f"own is {own}, but must be in (0, 1)")
        if max_clusters is not None:
            check_whole("max_clusters", max_clusters, least=1)
        self.num_components, self.max_clusters = num_components, max_clusters
        size = num_components, num_components
        eta = torch.full(size, math.log((1 - own) / (num_components - 1)), dtype=torch.float64)
        eta.fill_diagonal_(math.log(own))
        dims = "component", "cluster"
        self.prior = ConjugatePrior(Categorical(num_components), eta, num_components, dims=dims)

    def priors(self) -> dict[str, ConjugatePrior]:
        """The site, by name."""
        return {"owners": self.prior}

    @staticmethod
    def by_name(
        owners: Float[Tensor, "component cluster"], sizes: Float[Tensor, " component"]
    ) -> Float[Tensor, "component cluster"]:
        """q(c) in which a component alone in its cluster has one name for it, not several.

        Names of clusters that are most probable for no component with items are free. If a
        component with items shares its most probable name with no other such component, a free name
        means the same as its own, which therefore gets the probability of both.

        Parameters
        ----------
        owners
            q(c) of every component.
        sizes
            Expected numbers of items; a component has items from one half on.

        Examples
        --------
        >>> owners = torch.tensor([[0.8, 0.0, 0.2], [0.1, 0.9, 0.0], [0.1, 0.1, 0.8]])
        >>> Ownership.by_name(owners, torch.tensor([5.0, 4.0, 0.0]))[0]
        tensor([1., 0., 0.])
        """
        number = owners.shape[1]
        has_items, own = sizes >= 0.5, owners.argmax(1)
        holders = torch.bincount(own[has_items], minlength=number)
        free = (owners * (holders == 0)).masked_fill(~(has_items & (holders[own] == 1))[:, None], 0)
        return (owners - free).scatter_add(1, own[:, None], free.sum(1, keepdim=True))
