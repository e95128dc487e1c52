"""Student's t densities: every row, or every number, has a latent scale s.

    s ~ Gamma(nu / 2, rate nu / 2),    x | s, theta ~ N(mu, Lambda^{-1} / s),

which is Student's t with nu degrees of freedom: ``x | theta ~ t_nu(mu, Lambda^{-1})``. Under
expected statistics, with ``Delta = E[(x - mu)^T Lambda (x - mu)]`` and d numbers in x, the best
q(s | z = k) is ``Gamma((nu + d) / 2, rate (nu + Delta_k) / 2)``, and the bound at it is

    log int p(s) exp E[log N(x | mu, Lambda^{-1} / s)] ds
        = log Gamma((nu + d) / 2) - log Gamma(nu / 2) + (d / 2) log(2 / nu)
          - ((nu + d) / 2) log(1 + Delta / nu) + E[log|Lambda|] / 2 - (d / 2) log(2 pi).

At t(theta) it is the log-density of Student's t. Its gradient in t is E[s] u(x), the statistics of
a row with less weight the farther it is away (and u(x) itself for log|Lambda|), so natural
gradients need nothing else. The local variable s is summed out, so guides have no site for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.families.gaps import without_gaps
from pyro_crowdclust.families.normal_gamma import NormalGamma
from pyro_crowdclust.families.normal_inverse_wishart import NormalInverseWishart
from pyro_crowdclust.families.partly_observed import PartlyObserved

# Number of rows at a time, with a score for every number in every cluster.
_ROWS = 1024


def log_student(
    distance: Float[Tensor, "*#batch"],
    half_log_determinant: Float[Tensor, "*#batch"],
    num_seen: Float[Tensor, "*#batch"] | float,
    degrees: float,
) -> Float[Tensor, "*batch"]:
    """The bound above from Delta, ``E[log|Lambda|] / 2`` and d, without ``log(2 pi)``.

    Examples
    --------
    >>> import scipy.stats
    >>> zero = torch.zeros((), dtype=torch.float64)
    >>> found = log_student(zero + 4.0, zero, 1.0, 3.0) - math.log(2 * math.pi) / 2
    >>> math.isclose(found, scipy.stats.t.logpdf(2.0, 3.0))
    True
    """
    seen = torch.as_tensor(num_seen, dtype=distance.dtype)
    half = (degrees + seen) / 2
    constant = torch.lgamma(half) - math.lgamma(degrees / 2) + seen * (math.log(2 / degrees) / 2)
    # Rounding may make a distance negative.
    return constant + half_log_determinant - half * (distance.clamp_min(0) / degrees).log1p()


@dataclass(frozen=True)
class HeavyTailedRows:
    """``x ~ t_nu(mu, Sigma)``: one scale for all numbers of a row.

    It has the methods of a family that densities of observed features need, like
    ``PartlyObserved``.

    Attributes
    ----------
    family
        The family of mean and covariance.
    degrees
        nu.
    has_gaps
        Whether observations are rows with NaN in their gaps, which are integrated out, or
        observations of the family.

    Examples
    --------
    >>> import scipy.stats
    >>> from pyro_crowdclust.families import GaussianParameters
    >>> family = NormalInverseWishart(2)
    >>> theta = GaussianParameters(torch.zeros(1, 2), torch.eye(2).unsqueeze(0))
    >>> heavy = HeavyTailedRows(family, 3.0)
    >>> x = heavy.observed(torch.tensor([[1.0, 2.0]]))
    >>> log_t = heavy.log_likelihoods(family.sufficient_statistics(theta), x)
    >>> round(float(log_t + heavy.log_base_measure(x)), 5)
    -4.28995
    >>> round(float(scipy.stats.multivariate_t([0, 0], df=3).logpdf([1, 2])), 5)
    -4.28995
    """

    family: NormalInverseWishart
    degrees: float
    has_gaps: bool = False

    @property
    def _rows(self) -> NormalInverseWishart | PartlyObserved:
        """The density without heavy tails."""
        return PartlyObserved(self.family) if self.has_gaps else self.family

    @property
    def observation_size(self) -> int:
        """Length of an observation."""
        return self._rows.observation_size

    def observed(self, features: Float[Tensor, "*batch feature"]) -> Tensor:
        """The observations that features are."""
        return self._rows.observed(features)

    def log_likelihoods(
        self, statistics: Float[Tensor, "cluster size"], observation: Float[Tensor, "*batch obs"]
    ) -> Float[Tensor, "*batch cluster"]:
        """``log t_nu(x_o | theta_k)`` of every cluster, but for the base measure."""
        # Log-densities of a Gaussian minus that at its mean are -Delta / 2.
        highest = statistics[:, -1]
        num_seen: Tensor | float = float(self.family.dim)
        if self.has_gaps:
            highest = self._rows.log_likelihoods(self._around_zero(statistics), 0 * observation)
            num_seen = (~observation.isnan()).sum(-1, keepdim=True).to(highest)
        distance = 2 * (highest - self._rows.log_likelihoods(statistics, observation))
        return log_student(distance, highest, num_seen, self.degrees)

    def _around_zero(self, statistics: Float[Tensor, "cluster size"]) -> Tensor:
        """Statistics of a Gaussian with known mean zero."""
        dim = self.family.dim
        kept = torch.ones_like(statistics[0])
        kept[:dim] = kept[-2] = 0
        return statistics * kept

    def log_base_measure(self, observation: Float[Tensor, "*batch obs"]) -> float | Tensor:
        """``log h(x_o)``."""
        return self._rows.log_base_measure(observation)

    def sample_observation(self, statistics: Float[Tensor, "*batch size"]) -> Tensor:
        """One draw of a whole row: a Gaussian one under ``(s E[Lambda mu], -s E[Lambda] / 2)``."""
        scale = _scales(statistics[..., :1], self.degrees)
        return self._rows.sample_observation(scale * statistics)


@dataclass(frozen=True)
class HeavyTailedNumbers:
    """``x_j ~ t_nu(mu_j, 1 / lambda_j)``, independent: every number has a scale of its own.

    An outlying number gets less weight, the other numbers of its row keep theirs.

    Attributes
    ----------
    family
        The family of means and precisions.
    degrees
        nu.
    """

    family: NormalGamma
    degrees: float

    @property
    def observation_size(self) -> int:
        """Length of a row."""
        return self.family.num_features

    def observed(self, features: Float[Tensor, "*batch feature"]) -> Tensor:
        """The rows themselves, NaN in their gaps."""
        return features

    def log_likelihoods(
        self, statistics: Float[Tensor, "cluster size"], observation: Float[Tensor, "*batch obs"]
    ) -> Float[Tensor, "*batch cluster"]:
        """``sum_j log t_nu(x_j | theta_kj)`` over observed numbers, without the base measure."""
        rows = observation.reshape(-1, self.family.dim)
        parts = [_SumOfNumbers.apply(statistics, part, self.degrees) for part in rows.split(_ROWS)]
        return torch.cat(parts).reshape(*observation.shape[:-1], len(statistics))

    def log_base_measure(self, observation: Float[Tensor, "*batch obs"]) -> Tensor:
        """``log h(x_o)``."""
        return self.family.log_base_measure_of_seen(observation)

    def sample_observation(self, statistics: Float[Tensor, "*batch size"]) -> Tensor:
        """One draw of a whole row."""
        dim = self.family.dim
        scale = _scales(statistics[..., :dim], self.degrees)
        return self.family.sample_observation(torch.cat([scale] * 4, -1) * statistics)


class _SumOfNumbers(torch.autograd.Function):
    """Scores of some rows; those of numbers are computed again for the gradient, not stored."""

    @staticmethod
    def forward(ctx: Any, statistics: Tensor, rows: Tensor, degrees: float) -> Tensor:
        ctx.save_for_backward(statistics, rows)
        ctx.degrees = degrees
        return _sum_of_numbers(statistics, rows, degrees)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        statistics, rows = ctx.saved_tensors
        statistics = statistics.detach().requires_grad_()
        with torch.enable_grad():
            scores = _sum_of_numbers(statistics, rows, ctx.degrees)
            # If given a gradient, ``grad`` would load all of sympy at its first call.
            total = (scores * gradient).sum()
        return torch.autograd.grad(total, statistics)[0], None, None


def _sum_of_numbers(
    statistics: Float[Tensor, "cluster size"], rows: Float[Tensor, "row feature"], degrees: float
) -> Float[Tensor, "row cluster"]:
    linear, quadratic, third, fourth = statistics.chunk(4, -1)
    x, seen = (part.unsqueeze(-2) for part in without_gaps(rows))
    distance = -2 * (x * linear + x.square() * quadratic + third)
    return (log_student(distance, fourth, 1.0, degrees) * seen).sum(-1)


def _scales(like: Tensor, degrees: float) -> Tensor:
    """Draws of s."""
    half = torch.full_like(like, degrees / 2)
    return torch.distributions.Gamma(half, half, validate_args=False).sample()
