"""Partitions of fewer components: those of a larger fit, joined two by two."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust import Fitted


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
    q, statistics = larger.component_probabilities.double(), eta - eta0
    log_z = posterior.family.log_normalizer
    while (number := q.shape[1]) > num_components:
        first, second = np.triu_indices(number, 1)
        own = log_z(eta0 + statistics) - log_z(eta0) + _of_items(q)
        together = log_z(eta0 + statistics[first] + statistics[second]) - log_z(eta0)
        together += _of_items(q[:, first] + q[:, second])
        best = int((together - own[first] - own[second]).argmax())
        union = torch.eye(number, dtype=q.dtype)
        union[second[best], first[best]] = 1.0
        union = union[:, np.arange(number) != second[best]]
        q, statistics = q @ union, union.mT @ statistics
    return q


def _of_items(q: Float[Tensor, "item union"]) -> Float[Tensor, " union"]:
    """G of every union of components."""
    sizes = q.sum(0)
    return torch.xlogy(sizes, sizes) - torch.xlogy(q, q).sum(0)
