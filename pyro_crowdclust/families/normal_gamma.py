"""The normal-gamma family, conjugate prior of Gaussian components with independent features.

Convention, for a product over d dimensions j, ``size`` = 4 d, each line a block of d numbers:

    mu_j | lambda_j ~ N(m_j, 1 / (kappa_j lambda_j)),  lambda_j ~ Gamma(a_j, rate b_j)

    eta = (kappa m,   2 b + kappa m^2,  kappa,            2 a - 1)
    t   = (lambda mu, -lambda / 2,      -lambda mu^2 / 2, log(lambda) / 2)
    log Z = sum_j log Gamma(a_j) - a_j log b_j + log(2 pi / kappa_j) / 2
    u(x) = (x, x^2, 1, 1), log h(x) = -d log(2 pi) / 2

In one dimension it is the normal-inverse-Wishart prior with S = 2 b and nu = 2 a.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust.families.family import ExponentialFamily
from pyro_crowdclust.families.gamma_shape import multivariate_shape


class NormalGammaParameters(NamedTuple):
    """Standard parameters m, kappa, a, b, each ``[..., d]``; a and b are those of the precision."""

    location: Float[Tensor, "*batch dim"]
    concentration: Float[Tensor, "*batch dim"]
    shape: Float[Tensor, "*batch dim"]
    rate: Float[Tensor, "*batch dim"]


class IndependentNormals(NamedTuple):
    """A Gaussian with independent features: ``mean`` and ``precision``, each ``[..., d]``."""

    mean: Float[Tensor, "*batch dim"]
    precision: Float[Tensor, "*batch dim"]


@dataclass(frozen=True)
class NormalGamma(ExponentialFamily):
    """``prod_j NG(mu_j, lambda_j | m_j, kappa_j, a_j, b_j)``; values are ``IndependentNormals``.

    Examples
    --------
    >>> import torch
    >>> family = NormalGamma(1)
    >>> one = torch.ones(1)
    >>> eta = family.natural(3 * one, one, 2 * one, 4 * one)
    >>> family.expected_statistics(eta)[:2]             # E[lambda] = a / b
    tensor([ 1.5000, -0.2500])
    """

    dim: int

    @property
    def size(self) -> int:
        """Length of the natural parameters."""
        return 4 * self.dim

    @property
    def num_features(self) -> int:
        return self.dim

    def natural(
        self,
        location: Float[Tensor, "*batch dim"],
        concentration: Float[Tensor, "*batch dim"],
        shape: Float[Tensor, "*batch dim"],
        rate: Float[Tensor, "*batch dim"],
    ) -> Tensor:
        weighted = concentration * location
        blocks = weighted, 2 * rate + weighted * location, concentration, 2 * shape - 1
        return torch.cat(torch.broadcast_tensors(*blocks), -1)

    def standard(self, natural_parameters: Tensor) -> NormalGammaParameters:
        weighted, second, concentration, fourth = natural_parameters.chunk(4, -1)
        location = weighted / concentration
        rate = (second - weighted * location) / 2
        return NormalGammaParameters(location, concentration, (fourth + 1) / 2, rate)

    def log_normalizer(self, natural_parameters: Tensor) -> Tensor:
        _, concentration, shape, rate = self.standard(natural_parameters)
        terms = torch.lgamma(shape) - shape * rate.log() - concentration.log() / 2
        return terms.sum(-1) + self.dim * math.log(2 * math.pi) / 2

    def expected_statistics(self, natural_parameters: Tensor) -> Tensor:
        location, concentration, shape, rate = self.standard(natural_parameters)
        precision = shape / rate
        linear = precision * location
        log_precision = torch.digamma(shape) - rate.log()
        third = -(1 / concentration + linear * location) / 2
        return torch.cat([linear, -precision / 2, third, log_precision / 2], -1)

    def natural_of_mean(self, statistics: Tensor) -> Tensor:
        # In every dimension as for a full covariance in one dimension, with a = nu / 2 and b = S /
        # 2.
        linear, quadratic, third, fourth = statistics.chunk(4, -1)
        precision = -2 * quadratic
        location = linear / precision
        concentration = 1 / (-2 * third - linear * location)
        shape = multivariate_shape(precision.log() - 2 * fourth, 1)
        return self.natural(location, concentration, shape, shape / precision)

    def sufficient_statistics(self, value: IndependentNormals) -> Tensor:
        mean, precision = value
        linear = precision * mean
        return torch.cat([linear, -precision / 2, -linear * mean / 2, precision.log() / 2], -1)

    def sample(self, natural_parameters: Tensor) -> IndependentNormals:
        location, concentration, shape, rate = self.standard(natural_parameters)
        precision = torch.distributions.Gamma(shape, rate, validate_args=False).sample()
        deviation = torch.randn_like(location) * (concentration * precision).rsqrt()
        return IndependentNormals(location + deviation, precision)

    def in_domain(self, natural_parameters: Tensor) -> Bool[Tensor, "*batch"]:
        _, concentration, shape, rate = self.standard(natural_parameters)
        positive = (concentration > 0) & (shape > 0) & (rate > 0)
        return positive.all(-1) & natural_parameters.isfinite().all(-1)

    def observation_statistics(self, observation: Float[Tensor, "*batch dim"]) -> Tensor:
        ones = torch.ones_like(observation)
        return torch.cat([observation, observation.square(), ones, ones], -1)

    def design(self, features: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch column"]:
        return torch.cat([features, features.square(), torch.ones_like(features[..., :1])], -1)

    def fold(self, statistics: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch column"]:
        slopes, constants = statistics.split(2 * self.dim, -1)
        return torch.cat([slopes, constants.sum(-1, keepdim=True)], -1)

    @property
    def statistic_features(self) -> tuple[int, ...]:
        return tuple(range(self.dim)) * 4

    def log_base_measure_of_seen(self, features: Tensor) -> Float[Tensor, "*batch"]:
        return (~features.isnan()).sum(-1).to(features) * (-math.log(2 * math.pi) / 2)

    def log_base_measure(self, observation: Tensor) -> float:
        return -self.dim * math.log(2 * math.pi) / 2

    def sample_observation(self, statistics: Tensor) -> Float[Tensor, "*batch dim"]:
        linear, quadratic, _, _ = statistics.chunk(4, -1)
        precision = -2 * quadratic
        return linear / precision + torch.randn_like(linear) * precision.rsqrt()

    def full(self, statistics: Float[Tensor, "*batch size"]) -> Tensor:
        """Statistics in the layout of the normal-inverse-Wishart family, ``[..., d + d^2 + 2]``.

        ``<full(t), u_NIW(x)> = <t, u(x)>``: a Gaussian with independent features is a Gaussian,
        so code for the statistics of Gaussian components accepts these.
        """
        linear, quadratic, third, fourth = statistics.chunk(4, -1)
        constants = torch.stack([third.sum(-1), fourth.sum(-1)], -1)
        return torch.cat([linear, quadratic.diag_embed().flatten(-2), constants], -1)

    @property
    def unconstrained_size(self) -> int:
        return 2 * self.dim

    def from_unconstrained(self, unconstrained: Tensor) -> IndependentNormals:
        mean, log_precision = unconstrained.chunk(2, -1)
        return IndependentNormals(mean, log_precision.exp())

    def to_unconstrained(self, value: IndependentNormals) -> Tensor:
        return torch.cat([value.mean, value.precision.log()], -1)
