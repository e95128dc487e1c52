"""The Dirichlet family, conjugate prior of categorical draws.

Convention (Luo et al. 2018, appendix A.1), for ``size`` = K categories:

    eta  = (alpha_1 - 1, ..., alpha_K - 1)
    t(pi) = (log pi_1, ..., log pi_K)
    log Z = sum_k log Gamma(alpha_k) - log Gamma(sum_k alpha_k)
    u(z)  = one-hot z, log h(z) = 0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust.families.family import ExponentialFamily
from pyro_crowdclust.families.summaries import PosteriorSummary, summarize_shares


class DirichletParameters(NamedTuple):
    """Standard parameters: ``concentration`` alpha > 0, shape ``[..., K]``."""

    concentration: Float[Tensor, "*batch size"]


@dataclass(frozen=True)
class Dirichlet(ExponentialFamily):
    """``Dir(pi | alpha)`` over the ``size``-simplex; values are probability vectors ``pi``.

    Examples
    --------
    >>> import torch
    >>> family = Dirichlet(2)
    >>> eta = family.natural(torch.tensor([1.0, 1.0], dtype=torch.float64))
    >>> family.expected_statistics(eta).round(decimals=5)
    tensor([-1., -1.], dtype=torch.float64)
    """

    size: int

    def natural(self, concentration: Float[Tensor, "*batch size"]) -> Tensor:
        return concentration - 1

    def standard(self, natural_parameters: Float[Tensor, "*batch size"]) -> DirichletParameters:
        return DirichletParameters(natural_parameters + 1)

    def log_normalizer(self, natural_parameters: Tensor) -> Tensor:
        alpha = natural_parameters + 1
        return torch.lgamma(alpha).sum(-1) - torch.lgamma(alpha.sum(-1))

    def expected_statistics(self, natural_parameters: Tensor) -> Tensor:
        alpha = natural_parameters + 1
        return torch.digamma(alpha) - torch.digamma(alpha.sum(-1, keepdim=True))

    def mean_and_log_normalizer(self, natural_parameters: Tensor) -> tuple[Tensor, Tensor]:
        alpha = natural_parameters + 1
        total = alpha.sum(-1, keepdim=True)
        mean = torch.digamma(alpha) - torch.digamma(total)
        return mean, torch.lgamma(alpha).sum(-1) - torch.lgamma(total).squeeze(-1)

    def sufficient_statistics(self, value: Float[Tensor, "*batch size"]) -> Tensor:
        return value.log()

    def sample(self, natural_parameters: Tensor) -> Float[Tensor, "*batch size"]:
        return torch.distributions.Dirichlet(natural_parameters + 1, validate_args=False).sample()

    def in_domain(self, natural_parameters: Tensor) -> Bool[Tensor, "*batch"]:
        return ((natural_parameters > -1) & (natural_parameters < torch.inf)).all(-1)

    def observation_statistics(self, observation: Float[Tensor, "*batch size"]) -> Tensor:
        return observation

    def log_base_measure(self, observation: Tensor) -> Float[Tensor, "*batch"] | float:
        return 0.0

    def sample_observation(self, statistics: Tensor) -> Float[Tensor, "*batch size"]:
        categorical = torch.distributions.OneHotCategorical(logits=statistics, validate_args=False)
        return categorical.sample()

    def summary(
        self, natural_parameters: Float[Tensor, "*batch size"], interval: float
    ) -> PosteriorSummary:
        alpha = natural_parameters + 1
        return summarize_shares(alpha, alpha.sum(-1, keepdim=True) - alpha, interval)

    def share_moments(
        self, natural_parameters: Float[Tensor, "*batch size"]
    ) -> tuple[Float[Tensor, "*batch size"], Float[Tensor, "*batch size"]]:
        """Mean and variance of every share."""
        alpha = natural_parameters + 1
        total = alpha.sum(-1, keepdim=True)
        mean = alpha / total
        return mean, mean * (1 - mean) / (total + 1)

    def log_coordinates(self, statistics: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch"]:
        return statistics.sum(-1)

    @property
    def unconstrained_size(self) -> int:
        return self.size

    def from_unconstrained(self, unconstrained: Tensor) -> Float[Tensor, "*batch size"]:
        return unconstrained.softmax(-1)

    def to_unconstrained(self, value: Float[Tensor, "*batch size"]) -> Tensor:
        return value.log()
