"""The Dirichlet as conjugate prior of multinomial counts, such as the words of a document.

eta, t and log Z are those of ``dirichlet.py``; the likelihood, of n counts in ``size`` categories:

    u(x) = x, log h(x) = log n! - sum_c log x_c!
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.families.counts import log_factorials
from pyro_crowdclust.families.dirichlet import Dirichlet
from pyro_crowdclust.families.gaps import without_gaps


@dataclass(frozen=True)
class DirichletMultinomial(Dirichlet):
    """``Dir(p | alpha)``, prior of ``Mult(x | n, p)``; values are probability vectors.

    The number of counts n of an item is given, not modelled.

    Attributes
    ----------
    length
        n of simulated items.

    Examples
    --------
    >>> import torch
    >>> family = DirichletMultinomial(3, length=4)
    >>> family.log_base_measure(torch.tensor([2.0, 1.0, 1.0])).exp().round()     # 4! / 2!
    tensor(12.)
    """

    length: int = 100

    @property
    def num_features(self) -> int:
        return self.size

    @property
    def takes_gaps(self) -> bool:
        return True

    def log_marginals(self, statistics: Tensor, features: Tensor) -> Tensor:
        """``sum_o x_o log p_o - n_o log(1 - sum_m p_m)``: how observed counts are divided.

        The second term is from the sum over the missing counts, which are negative multinomial
        given ``n_o = sum_o x_o``; n itself is not modelled.
        """
        filled, seen = without_gaps(features)
        share = statistics.exp().mT
        unseen = (~seen).to(statistics) @ share
        # 1 - unseen is at least the observed share, but rounding may make it zero.
        of_seen = seen.to(statistics) @ share.detach()
        left = torch.maximum(1 - unseen.detach(), of_seen).clamp_min(torch.finfo(share.dtype).tiny)
        # The gradient is that of 1 - unseen.
        log_left = left.log() - (unseen - unseen.detach()) / left
        return filled @ statistics.mT - filled.sum(-1, keepdim=True) * log_left

    def log_base_measure(self, observation: Tensor) -> Float[Tensor, "*batch"]:
        return torch.lgamma(observation.sum(-1) + 1) - log_factorials(observation)

    def sample_observation(self, statistics: Tensor) -> Float[Tensor, "*batch size"]:
        return torch.distributions.Multinomial(
            self.length, logits=statistics, validate_args=False
        ).sample()
