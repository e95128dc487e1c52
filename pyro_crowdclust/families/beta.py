"""The Beta family, conjugate prior of yes/no answers.

Convention (Luo et al. 2018, appendix A.1):

    eta      = (tau_1 - 1, tau_2 - 1)
    t(alpha) = (log alpha, log(1 - alpha))
    log Z    = log Gamma(tau_1) + log Gamma(tau_2) - log Gamma(tau_1 + tau_2)
    u(L)     = (L, 1 - L), log h(L) = 0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust.families.family import ExponentialFamily
from pyro_crowdclust.families.summaries import PosteriorSummary, summarize_shares


class BetaParameters(NamedTuple):
    """Standard parameters: pseudo-counts of yes (``successes``) and of no (``failures``), > 0."""

    successes: Float[Tensor, "*batch"]
    failures: Float[Tensor, "*batch"]


@dataclass(frozen=True)
class Beta(ExponentialFamily):
    """``Beta(alpha | tau_1, tau_2)``; values are probabilities ``alpha``.

    Examples
    --------
    >>> import torch
    >>> family = Beta()
    >>> eta = family.natural(torch.tensor(1.0), torch.tensor(1.0))
    >>> family.expected_statistics(eta).round(decimals=5)
    tensor([-1., -1.])
    """

    size: int = 2

    def natural(
        self, successes: Float[Tensor, "*batch"], failures: Float[Tensor, "*batch"]
    ) -> Tensor:
        return torch.stack([successes - 1, failures - 1], -1)

    def standard(self, natural_parameters: Tensor) -> BetaParameters:
        return BetaParameters(*(natural_parameters + 1).unbind(-1))

    def log_normalizer(self, natural_parameters: Tensor) -> Tensor:
        tau = natural_parameters + 1
        return _total(torch.lgamma(tau)) - torch.lgamma(_total(tau))

    def expected_statistics(self, natural_parameters: Tensor) -> Tensor:
        tau = natural_parameters + 1
        return torch.digamma(tau) - torch.digamma(_total(tau).unsqueeze(-1))

    def sufficient_statistics(self, value: Float[Tensor, "*batch"]) -> Tensor:
        return torch.stack([value.log(), torch.log1p(-value)], -1)

    def sample(self, natural_parameters: Tensor) -> Float[Tensor, "*batch"]:
        tau = natural_parameters + 1
        return torch.distributions.Beta(tau[..., 0], tau[..., 1], validate_args=False).sample()

    def in_domain(self, natural_parameters: Tensor) -> Bool[Tensor, "*batch"]:
        return ((natural_parameters > -1) & (natural_parameters < torch.inf)).all(-1)

    def observation_statistics(self, observation: Float[Tensor, "*batch"]) -> Tensor:
        return torch.stack([observation, 1 - observation], -1)

    def log_base_measure(self, observation: Tensor) -> float:
        return 0.0

    def sample_observation(self, statistics: Tensor) -> Float[Tensor, "*batch"]:
        return torch.bernoulli(statistics[..., 0].exp())

    def summary(
        self, natural_parameters: Float[Tensor, "*batch size"], interval: float
    ) -> PosteriorSummary:
        return summarize_shares(*self.standard(natural_parameters), interval)

    def share_moments(
        self, natural_parameters: Float[Tensor, "*batch size"]
    ) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
        """Mean and variance of the probability."""
        tau = natural_parameters + 1
        total = _total(tau)
        mean = tau[..., 0] / total
        return mean, mean * (1 - mean) / (total + 1)

    def log_coordinates(self, statistics: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch"]:
        return statistics.sum(-1)

    @property
    def unconstrained_size(self) -> int:
        return 1

    def from_unconstrained(self, unconstrained: Tensor) -> Float[Tensor, "*batch"]:
        return unconstrained.squeeze(-1).sigmoid()

    def to_unconstrained(self, value: Float[Tensor, "*batch"]) -> Tensor:
        return torch.logit(value).unsqueeze(-1)


def _total(sides: Float[Tensor, "*batch side"]) -> Float[Tensor, "*batch"]:
    """The sum of both sides; ``sum`` over rows of two takes several times as long."""
    return sides[..., 0] + sides[..., 1]
