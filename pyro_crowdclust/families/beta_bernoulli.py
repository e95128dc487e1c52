"""Independent Betas, conjugate prior of binary vectors.

Convention, for d yes/no features j, ``size`` = 2 d, each line a block of d numbers:

    eta  = (tau_1 - 1, tau_2 - 1)
    t(p) = (log p,     log(1 - p))
    log Z = sum_j log Gamma(tau_1j) + log Gamma(tau_2j) - log Gamma(tau_1j + tau_2j)
    u(x) = (x, 1 - x), log h(x) = 0
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust.families.beta import BetaParameters
from pyro_crowdclust.families.family import ExponentialFamily


@dataclass(frozen=True)
class BetaBernoulli(ExponentialFamily):
    """``prod_j Beta(p_j | tau_1j, tau_2j)``; values are probabilities p of shape ``[..., d]``.

    Examples
    --------
    >>> import torch
    >>> family = BetaBernoulli(2)
    >>> eta = family.natural(torch.ones(2), torch.ones(2))
    >>> family.expected_statistics(eta).round(decimals=5)
    tensor([-1., -1., -1., -1.])
    """

    dim: int

    @property
    def size(self) -> int:
        """Length of the natural parameters."""
        return 2 * self.dim

    @property
    def num_features(self) -> int:
        return self.dim

    def natural(
        self, successes: Float[Tensor, "*batch dim"], failures: Float[Tensor, "*batch dim"]
    ) -> Tensor:
        return torch.cat([successes - 1, failures - 1], -1)

    def standard(self, natural_parameters: Tensor) -> BetaParameters:
        return BetaParameters(*(natural_parameters + 1).chunk(2, -1))

    def log_normalizer(self, natural_parameters: Tensor) -> Tensor:
        successes, failures = self.standard(natural_parameters)
        terms = torch.lgamma(successes) + torch.lgamma(failures)
        return (terms - torch.lgamma(successes + failures)).sum(-1)

    def expected_statistics(self, natural_parameters: Tensor) -> Tensor:
        successes, failures = self.standard(natural_parameters)
        total = torch.digamma(successes + failures)
        return torch.cat([torch.digamma(successes) - total, torch.digamma(failures) - total], -1)

    def sufficient_statistics(self, value: Float[Tensor, "*batch dim"]) -> Tensor:
        return torch.cat([value.log(), torch.log1p(-value)], -1)

    def sample(self, natural_parameters: Tensor) -> Float[Tensor, "*batch dim"]:
        successes, failures = self.standard(natural_parameters)
        draw = torch.distributions.Beta(successes, failures, validate_args=False).sample()
        # A probability that rounds to 1 has no log(1 - p).
        return draw.clamp(max=1 - torch.finfo(draw.dtype).eps)

    def in_domain(self, natural_parameters: Tensor) -> Bool[Tensor, "*batch"]:
        return ((natural_parameters > -1) & natural_parameters.isfinite()).all(-1)

    def observation_statistics(self, observation: Float[Tensor, "*batch dim"]) -> Tensor:
        return torch.cat([observation, 1 - observation], -1)

    @property
    def statistic_features(self) -> tuple[int, ...]:
        return tuple(range(self.dim)) * 2

    def log_base_measure(self, observation: Tensor) -> float:
        return 0.0

    def sample_observation(self, statistics: Tensor) -> Float[Tensor, "*batch dim"]:
        return torch.bernoulli(statistics[..., : self.dim].exp())

    def log_coordinates(self, statistics: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch"]:
        return statistics.sum(-1)

    @property
    def unconstrained_size(self) -> int:
        return self.dim

    def from_unconstrained(self, unconstrained: Tensor) -> Float[Tensor, "*batch dim"]:
        return unconstrained.sigmoid()

    def to_unconstrained(self, value: Float[Tensor, "*batch dim"]) -> Tensor:
        return torch.logit(value)
