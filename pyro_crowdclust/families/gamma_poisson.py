"""Independent Gammas, conjugate prior of vectors of Poisson counts.

Convention, for d counts j, ``size`` = 2 d, each line a block of d numbers:

    lambda_j ~ Gamma(a_j, rate b_j)

    eta = (a - 1,      b)
    t   = (log lambda, -lambda)
    log Z = sum_j log Gamma(a_j) - a_j log b_j
    u(x) = (x, 1), log h(x) = -sum_j log x_j!
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust.families.counts import log_factorials
from pyro_crowdclust.families.family import ExponentialFamily


class GammaParameters(NamedTuple):
    """Standard parameters: ``shape`` a and ``rate`` b, each ``[..., d]``; the mean is a / b."""

    shape: Float[Tensor, "*batch dim"]
    rate: Float[Tensor, "*batch dim"]


@dataclass(frozen=True)
class GammaPoisson(ExponentialFamily):
    """``prod_j Gamma(lambda_j | a_j, b_j)``; values are the rates lambda, of shape ``[..., d]``.

    Examples
    --------
    >>> import torch
    >>> family = GammaPoisson(1)
    >>> eta = family.natural(torch.tensor([3.0]), torch.tensor([2.0]))
    >>> family.expected_statistics(eta)[1]
    tensor(-1.5000)
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
        self, shape: Float[Tensor, "*batch dim"], rate: Float[Tensor, "*batch dim"]
    ) -> Tensor:
        return torch.cat([shape - 1, rate], -1)

    def standard(self, natural_parameters: Tensor) -> GammaParameters:
        first, rate = natural_parameters.chunk(2, -1)
        return GammaParameters(first + 1, rate)

    def log_normalizer(self, natural_parameters: Tensor) -> Tensor:
        shape, rate = self.standard(natural_parameters)
        return (torch.lgamma(shape) - shape * rate.log()).sum(-1)

    def expected_statistics(self, natural_parameters: Tensor) -> Tensor:
        shape, rate = self.standard(natural_parameters)
        return torch.cat([torch.digamma(shape) - rate.log(), -shape / rate], -1)

    def sufficient_statistics(self, value: Float[Tensor, "*batch dim"]) -> Tensor:
        return torch.cat([value.log(), -value], -1)

    def sample(self, natural_parameters: Tensor) -> Float[Tensor, "*batch dim"]:
        return torch.distributions.Gamma(
            *self.standard(natural_parameters), validate_args=False
        ).sample()

    def in_domain(self, natural_parameters: Tensor) -> Bool[Tensor, "*batch"]:
        shape, rate = self.standard(natural_parameters)
        return ((shape > 0) & (rate > 0)).all(-1) & natural_parameters.isfinite().all(-1)

    def observation_statistics(self, observation: Float[Tensor, "*batch dim"]) -> Tensor:
        return torch.cat([observation, torch.ones_like(observation)], -1)

    @property
    def statistic_features(self) -> tuple[int, ...]:
        return tuple(range(self.dim)) * 2

    def log_base_measure(self, observation: Tensor) -> Float[Tensor, "*batch"]:
        return -log_factorials(observation)

    def sample_observation(self, statistics: Tensor) -> Float[Tensor, "*batch dim"]:
        return torch.poisson(-statistics[..., self.dim :])

    def log_coordinates(self, statistics: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch"]:
        return statistics[..., : self.dim].sum(-1)

    @property
    def unconstrained_size(self) -> int:
        return self.dim

    def from_unconstrained(self, unconstrained: Tensor) -> Float[Tensor, "*batch dim"]:
        return unconstrained.exp()

    def to_unconstrained(self, value: Float[Tensor, "*batch dim"]) -> Tensor:
        return value.log()
