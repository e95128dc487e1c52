"""Evidence of known labels about which components form one cluster."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.distributions.priors import ConjugatePrior


class ClassOwners(NamedTuple):
    """The bound of known labels as a function of c, with the optimal q(rho) for each c.

    With N_ky the expected number of items in component k and class y,

        f(c) = sum_m log Z(eta0_m + sum_k q(c_k = m) N_k) - log Z(eta0_m),

    convex in c, with the slope ``sum_y N_ky E[log rho_my]``.

    Attributes
    ----------
    prior
        Of the classes in every cluster.
    counts
        N.
    """

    prior: ConjugatePrior
    counts: Float[Tensor, "component class"]

    def _of_clusters(self, owners: Float[Tensor, "component cluster"]) -> Tensor:
        return self.prior.natural_parameters + owners.mT @ self.counts

    @property
    def gain(self) -> Float[Tensor, "component component"]:
        """Gain of the labels if two components form one cluster, under the prior of the first."""
        prior = self.prior.natural_parameters[0]
        own = self._gained(prior + self.counts)
        together = self._gained(prior + self.counts.unsqueeze(0) + self.counts.unsqueeze(1))
        return together - own.unsqueeze(0) - own.unsqueeze(1)

    def _gained(self, natural_parameters: Float[Tensor, "*cluster class"]) -> Tensor:
        normalizer = self.prior.family.log_normalizer
        return normalizer(natural_parameters) - normalizer(self.prior.natural_parameters[0])

    @property
    def between(self) -> Float[Tensor, "component component"]:
        """Zero: labels couple components only through the classes of their cluster."""
        number = len(self.counts)
        return self.counts.new_zeros(number, number)

    def slope(
        self, owners: Float[Tensor, "component cluster"]
    ) -> Float[Tensor, "component cluster"]:
        """Evidence for a component being in a cluster, from the classes of the cluster."""
        of_clusters = self.prior.family.expected_statistics(self._of_clusters(owners))
        return self.counts @ of_clusters.mT

    def bound(self, owners: Float[Tensor, "component cluster"]) -> float:
        """The term of the labels in the bound."""
        normalizer = self.prior.family.log_normalizer
        before = normalizer(self.prior.natural_parameters)
        return float((normalizer(self._of_clusters(owners)) - before).sum())
