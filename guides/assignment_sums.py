"""Ways in which a guide sums over z, for latents that differ from cluster to cluster.

With f_k the terms of the bound given z = k, the bound needs ``sum_k q(z = k | o) f_k`` of every
item, and

- ``Enumerated`` leaves that to Pyro, which runs the model on all K values at once;
- ``AtMean`` evaluates the model at ``E[z] = q``, in which it is linear, with the same result;
- ``Sampled`` draws some of the values and gives an unbiased estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyro
import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.distributions import Assignment, SampledAssignment, SparseAtMean
from pyro_crowdclust.errors import check_whole
from pyro_crowdclust.minibatches import Batch


class AssignmentSum(Protocol):
    """What ``Enumerated``, ``AtMean``, ``Sampled`` and user-defined sums over z must have."""

    def sample(
        self, log_probabilities: Float[Tensor, "item cluster"], batch: Batch
    ) -> Float[Tensor, "*value item cluster"]:
        """Run the guide's site ``z`` inside the plate of the items.

        Parameters
        ----------
        log_probabilities
            log q(z | o), normalized.
        batch
            The items.

        Returns
        -------
        Tensor
            One-hot values of z, with an axis in front if they are enumerated; or a sparse matrix of
            probabilities, with a latent for every stored entry.
        """
        ...


@dataclass(frozen=True)
class Enumerated:
    """Pyro's own enumeration of z over all K one-hot values, under its ``TraceEnum_ELBO``."""

    def sample(self, log_probabilities: Tensor, batch: Batch) -> Tensor:
        """Run the site of z, with an axis of all clusters in front."""
        site = Assignment(log_probabilities)
        return pyro.sample("z", site, infer={"enumerate": "parallel"})


@dataclass(frozen=True)
class AtMean:
    """z at its mean, with a latent for every cluster that an item may be in.

    Values of z whose total probability is below half a unit in the last place (of the precision of
    the features) are left out, since the networks' outputs are no more precise than that. So a step
    decodes K latents per item at first, and fewer as q(z | o) becomes certain. No site is
    enumerated.
    """

    def sample(self, log_probabilities: Tensor, batch: Batch) -> Tensor:
        """Run the site of z at its mean, without the values that are next to impossible."""
        rounding = torch.finfo(batch.needed_features.dtype).eps / 2
        return pyro.sample("z", SparseAtMean(log_probabilities, rounding))


@dataclass(frozen=True)
class Sampled:
    """Enumeration over the most probable clusters of an item and a draw from the others.

    Bound and gradients are unbiased (``SampledAssignment``), and a step decodes ``num_summed + 1``
    latents per item instead of K.

    Parameters
    ----------
    num_summed
        The number of most probable clusters over which z is summed.

    Raises
    ------
    ValueError
        If ``num_summed`` is below 1.
    """

    num_summed: int

    def __post_init__(self) -> None:
        check_whole("num_summed", self.num_summed, least=1)

    def sample(self, log_probabilities: Tensor, batch: Batch) -> Tensor:
        """Run the site of z, with an axis in front for the clusters that are summed over."""
        if self.num_summed >= log_probabilities.shape[-1] - 1:
            return Enumerated().sample(log_probabilities, batch)
        noise = batch.noise(log_probabilities.detach()[:, :1])
        uniform = torch.special.ndtr(noise).squeeze(-1)
        site = SampledAssignment(log_probabilities, self.num_summed, uniform)
        return pyro.sample("z", site, infer={"enumerate": "parallel"})
