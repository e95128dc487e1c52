"""Partitions of fewer components: those of a larger fit, joined two by two."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust import Fitted
from pyro_crowdclust.partitions.joining import join_best


def joined_partition(larger: Fitted, num_components: int) -> Float[Tensor, "item component"]:
    """q(z) of a larger fit, in which again and again the two components are joined that fit best.

    With the statistics t_k and the sizes n_k of the components, and q(z) as it is, the ELBO changes
    with a union of a and b by about

        F(t_a + t_b) - F(t_a) - F(t_b) + G(q_a + q_b) - G(q_a) - G(q_b),
        F(t) = log Z(eta0 + t) - log Z(eta0),   G(q) = n log n - sum_i q_i log q_i.

    F stands for the features, and G for the weights and the entropy of q(z).

    Parameters
    ----------
    larger
        A fit to features alone, with more components.
    num_components
        Number of components that are left.
    """
    posterior = larger.guide.posteriors["components"]
    eta = posterior.natural_parameters.detach()
    eta0 = larger.model.priors()["components"].natural_parameters.expand_as(eta)[:1]
    every, statistics = larger.component_probabilities.double(), eta - eta0
    log_z = posterior.family.log_normalizer

    def changes(member: Float[Tensor, "component union"], _: Tensor) -> Tensor:
        q, t = every @ member, member.mT @ statistics
        first, second = torch.triu_indices(len(t), len(t), 1)
        own = log_z(eta0 + t) - log_z(eta0) + _of_items(q)
        together = log_z(eta0 + t[first] + t[second]) - log_z(eta0)
        together += _of_items(q[:, first] + q[:, second])
        found = own.new_full((len(t), len(t)), -torch.inf)
        return found.index_put((first, second), together - own[first] - own[second])

    union = join_best(torch.arange(len(eta)), changes, fewest=num_components)
    return every @ nn.functional.one_hot(union.unique(return_inverse=True)[1]).double()


def _of_items(q: Float[Tensor, "item union"]) -> Float[Tensor, " union"]:
    """G of every union of components."""
    sizes = q.sum(0)
    return torch.xlogy(sizes, sizes) - torch.xlogy(q, q).sum(0)
