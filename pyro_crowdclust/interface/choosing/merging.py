"""Starts of fits with fewer components: those of a larger fit, joined two by two."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust import Fitted


def joined_partition(larger: Fitted, num_components: int) -> Float[Tensor, "item component"]:
    """q(z) of a larger fit, with the two components joined whose union costs least, and again.

    With the statistics t_k of the components and q(z) as it is, a union of a and b gains

        log Z(eta0 + t_a + t_b) + log Z(eta0) - log Z(eta0 + t_a) - log Z(eta0 + t_b)
            + E(n_a + n_b) - E(n_a) - E(n_b) + H(q_a + q_b) - H(q_a) - H(q_b),

    ``E(n) = n log n`` for the weights, and ``H(q) = -sum_i q_i log q_i``.

    Parameters
    ----------
    larger
        A fit of features alone with more components.
    num_components
        Number of components that are left.
    """
    guide = larger.guide
    prior, posterior = larger.model.priors()["components"], guide.posteriors["components"]
    eta0, eta = prior.natural_parameters, posterior.natural_parameters.detach()
    counted = eta - eta0
    eta0 = eta0.expand_as(eta)[0]
    q = larger.component_probabilities.double()
    log_z = posterior.family.log_normalizer
    while q.shape[1] > num_components:
        first, second = np.triu_indices(q.shape[1], 1)
        own = log_z(eta0 + counted) - log_z(eta0) + _of_items(q)
        union = log_z(eta0 + counted[first] + counted[second]) - log_z(eta0)
        gains = union + _of_items(q[:, first] + q[:, second]) - own[first] - own[second]
        best = int(gains.argmax())
        keep, gone = int(first[best]), int(second[best])
        others = [k for k in range(q.shape[1]) if k != gone]
        for table in (q, counted):
            pass
        q = q.clone()
        q[:, keep] += q[:, gone]
        counted = counted.clone()
        counted[keep] += counted[gone]
        q, counted = q[:, others], counted[others]
    return q


def _of_items(q: Float[Tensor, "item union"]) -> Float[Tensor, " union"]:
    """What the weights and the entropy of q(z) contribute, up to a constant."""
    sizes = q.sum(0)
    return torch.xlogy(sizes, sizes) - torch.xlogy(q, q).sum(0)
