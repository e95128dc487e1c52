"""The normal-inverse-Wishart family, conjugate prior of Gaussian components.

Convention (Luo et al. 2018, appendix A.1), for dimension d, ``size`` = d + d^2 + 2:

    mu | Sigma ~ N(m, Sigma / kappa),  Sigma ~ InverseWishart(S, nu)

    eta = (kappa m, vec(S + kappa m m^T), kappa, nu + d + 2)
    t   = (Lambda mu, vec(-Lambda / 2), -mu^T Lambda mu / 2, log|Lambda| / 2),  Lambda = Sigma^{-1}
    log Z = nu (d log 2 - log|S|) / 2 + log Gamma_d(nu / 2) + d log(2 pi / kappa) / 2
    u(x) = (x, vec(x x^T), 1, 1), log h(x) = -d log(2 pi) / 2

An observation is a row x of d numbers; or, of a latent, its flat ``Moments``, under which u is a
mean. Their lengths tell which. Of rows no u(x) is kept: to write its d^2 numbers an item would take
longer than all else.

The paper omits the constant d log(2 pi) / 2 from log Z and from the likelihood; both are included
here, so that every bound is a bound on the true log evidence. In the paper's log Z the last two
terms have the same sign.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Num
from torch import Tensor

from pyro_crowdclust.families.family import ExponentialFamily
from pyro_crowdclust.families.gamma_shape import multivariate_shape
from pyro_crowdclust.families.gaps import gaussian_log_marginals
from pyro_crowdclust.families.gaussian import Gaussian, GaussianParameters, Moments


class NormalInverseWishartParameters(NamedTuple):
    """Standard parameters: ``location`` m, ``concentration`` kappa, ``scale`` S, ``degrees`` nu."""

    location: Float[Tensor, "*batch dim"]
    concentration: Float[Tensor, "*batch"]
    scale: Float[Tensor, "*batch dim dim"]
    degrees: Float[Tensor, "*batch"]


class _Factored(NamedTuple):
    """What E[t] and log Z share: S = L L^T, its log-determinant, and (nu - i) / 2 for i < d."""

    location: Float[Tensor, "*batch dim"]
    concentration: Float[Tensor, "*batch"]
    cholesky: Float[Tensor, "*batch dim dim"]
    log_determinant: Float[Tensor, "*batch"]
    degrees: Float[Tensor, "*batch"]
    halves: Float[Tensor, "*batch dim"]


@dataclass(frozen=True)
class NormalInverseWishart(ExponentialFamily):
    """``NIW(mu, Sigma | m, kappa, S, nu)``; values are ``GaussianParameters(mean, covariance)``.

    Examples
    --------
    >>> import torch
    >>> family = NormalInverseWishart(1)
    >>> eta = family.natural(torch.zeros(1), torch.tensor(1.0), torch.eye(1), torch.tensor(3.0))
    >>> family.standard(eta).scale
    tensor([[1.]])
    """

    dim: int

    @property
    def size(self) -> int:
        """Length of the natural parameters."""
        return self.dim + self.dim**2 + 2

    @property
    def local(self) -> Gaussian:
        """The family of the latent whose density the first d + d^2 statistics parameterize."""
        return Gaussian(self.dim)

    @property
    def num_features(self) -> int:
        return self.dim

    def _are_rows(self, observation: Tensor) -> bool:
        return observation.shape[-1] == self.dim

    def features(self, observation: Float[Tensor, "*batch obs"]) -> Float[Tensor, "*batch dim"]:
        return observation if self._are_rows(observation) else Moments.of(observation).mean

    def _unpack(self, flat: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        linear, quadratic = self.local.unpack(flat)
        return linear, quadratic, flat[..., -2], flat[..., -1]

    def _pack(self, linear: Tensor, quadratic: Tensor, third: Tensor, fourth: Tensor) -> Tensor:
        scalars = (third.unsqueeze(-1), fourth.unsqueeze(-1))
        return torch.cat([linear, quadratic.flatten(-2), *scalars], -1)

    def natural(
        self,
        location: Float[Tensor, "*batch dim"],
        concentration: Float[Tensor, "*batch"],
        scale: Float[Tensor, "*batch dim dim"],
        degrees: Num[Tensor, "*batch"],
    ) -> Tensor:
        weighted = concentration.unsqueeze(-1) * location
        second = scale + weighted.unsqueeze(-1) * location.unsqueeze(-2)
        fourth = torch.as_tensor(degrees + self.dim + 2)
        # ``torch.broadcast_shapes`` would load all of sympy at its first call.
        batch = torch.broadcast_tensors(second[..., 0, 0], fourth)[0].shape
        return self._pack(
            weighted.expand(*batch, self.dim),
            second.expand(*batch, self.dim, self.dim),
            concentration.expand(batch),
            fourth.expand(batch),
        )

    def standard(self, natural_parameters: Tensor) -> NormalInverseWishartParameters:
        weighted, second, concentration, fourth = self._unpack(natural_parameters)
        location = weighted / concentration.unsqueeze(-1)
        scale = second - weighted.unsqueeze(-1) * location.unsqueeze(-2)
        return NormalInverseWishartParameters(
            location, concentration, (scale + scale.mT) / 2, fourth - self.dim - 2
        )

    def _factored(self, natural_parameters: Tensor) -> _Factored:
        weighted, second, concentration, fourth = self._unpack(natural_parameters)
        location = weighted / concentration.unsqueeze(-1)
        scale = torch.addcmul(second, weighted.unsqueeze(-1), location.unsqueeze(-2), value=-1)
        # Like every factorization here it reads only one triangle of the scale.
        cholesky = torch.linalg.cholesky(scale)
        log_determinant = 2 * cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        degrees = fourth - (self.dim + 2)
        offsets = torch.arange(self.dim, dtype=scale.dtype, device=scale.device)
        halves = (degrees.unsqueeze(-1) - offsets) / 2
        return _Factored(location, concentration, cholesky, log_determinant, degrees, halves)

    def _log_normalizer(self, of: _Factored) -> Tensor:
        # log Gamma_d(nu / 2) = d (d - 1) log(pi) / 4 + sum_i log Gamma((nu - i) / 2), i < d
        constant = self.dim * ((self.dim - 1) * math.log(math.pi) / 4 + math.log(2 * math.pi) / 2)
        return (
            torch.lgamma(of.halves).sum(-1)
            + of.degrees / 2 * (self.dim * math.log(2) - of.log_determinant)
            - self.dim / 2 * of.concentration.log()
            + constant
        )

    def _expected_statistics(self, of: _Factored) -> Tensor:
        precision = of.degrees[..., None, None] * torch.cholesky_inverse(of.cholesky)
        linear = (precision @ of.location.unsqueeze(-1)).squeeze(-1)
        return self._pack(
            linear,
            precision * -0.5,
            (self.dim / of.concentration + (linear * of.location).sum(-1)) * -0.5,
            (torch.digamma(of.halves).sum(-1) + self.dim * math.log(2) - of.log_determinant) / 2,
        )

    def log_normalizer(self, natural_parameters: Tensor) -> Tensor:
        return self._log_normalizer(self._factored(natural_parameters))

    def expected_statistics(self, natural_parameters: Tensor) -> Tensor:
        return self._expected_statistics(self._factored(natural_parameters))

    def natural_of_mean(self, statistics: Tensor) -> Tensor:
        # With A = nu S^{-1} = E[Lambda]: m = A^{-1} E[Lambda mu], kappa from E[mu^T Lambda mu] -
        # m^T A m, and nu from log|A| - E[log|Lambda|].
        linear, quadratic, third, fourth = self._unpack(statistics)
        cholesky = torch.linalg.cholesky(-(quadratic + quadratic.mT))
        location = torch.cholesky_solve(linear.unsqueeze(-1), cholesky).squeeze(-1)
        concentration = self.dim / (-2 * third - (linear * location).sum(-1))
        log_determinant = 2 * cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        degrees = 2 * multivariate_shape(log_determinant - 2 * fourth, self.dim)
        scale = degrees[..., None, None] * torch.cholesky_inverse(cholesky)
        return self.natural(location, concentration, scale, degrees)

    def mean_and_log_normalizer(self, natural_parameters: Tensor) -> tuple[Tensor, Tensor]:
        factored = self._factored(natural_parameters)
        return self._expected_statistics(factored), self._log_normalizer(factored)

    def sufficient_statistics(self, value: GaussianParameters) -> Tensor:
        mean, covariance = value
        precision = torch.linalg.inv(covariance)
        linear = (precision @ mean.unsqueeze(-1)).squeeze(-1)
        return self._pack(
            linear, -precision / 2, -(linear * mean).sum(-1) / 2, -torch.logdet(covariance) / 2
        )

    def sample(self, natural_parameters: Tensor) -> GaussianParameters:
        location, concentration, scale, degrees = self.standard(natural_parameters)
        # Bartlett: with S = L L^T and A A^T ~ Wishart(I, nu), Sigma = R R^T for R = L A^{-T}. The
        # inverse of S is not needed: by rounding it may have no root.
        offsets = torch.arange(self.dim, dtype=scale.dtype, device=scale.device)
        chi_square = torch.distributions.Chi2(degrees.unsqueeze(-1) - offsets, validate_args=False)
        bartlett = torch.randn_like(scale).tril(-1) + chi_square.sample().sqrt().diag_embed()
        root = torch.linalg.solve_triangular(
            bartlett.mT, torch.linalg.cholesky(scale), upper=True, left=False
        )
        deviation = (root @ torch.randn_like(location).unsqueeze(-1)).squeeze(-1)
        mean = location + deviation / concentration.sqrt().unsqueeze(-1)
        covariance = root @ root.mT
        return GaussianParameters(mean, covariance)

    def in_domain(self, natural_parameters: Tensor) -> Bool[Tensor, "*batch"]:
        weighted, second, concentration, fourth = self._unpack(natural_parameters)
        location = weighted / concentration.unsqueeze(-1)
        scale = torch.addcmul(second, weighted.unsqueeze(-1), location.unsqueeze(-2), value=-1)
        positive = torch.linalg.cholesky_ex(scale).info == 0
        finite = natural_parameters.abs().sum(-1) < torch.inf  # not true of NaN either
        return positive & finite & (concentration > 0) & (fourth > 2 * self.dim + 1)

    def observation_statistics(self, observation: Float[Tensor, "*batch obs"]) -> Tensor:
        local = self.local
        if self._are_rows(observation):
            observation = local.sufficient_statistics(observation)
        ones = observation.new_ones(*observation.shape[:-1], 2)
        return torch.cat([observation[..., : local.size], ones], -1)

    def log_likelihoods(
        self, statistics: Float[Tensor, "cluster size"], observation: Float[Tensor, "*batch obs"]
    ) -> Float[Tensor, "*batch cluster"]:
        local = self.local
        of_latent, constants = statistics[:, : local.size], statistics[:, local.size :].sum(-1)
        if self._are_rows(observation):
            return local.inner_products(of_latent, observation) + constants
        # With the few clusters on the left the product takes half the time.
        scores = torch.inner(of_latent, observation[..., : local.size]).movedim(0, -1)
        return scores + constants

    def weighted_statistics(
        self, observation: Float[Tensor, "row obs"], weights: Float[Tensor, "row cluster"]
    ) -> Float[Tensor, "cluster size"]:
        if not self._are_rows(observation):
            return super().weighted_statistics(observation, weights)
        counts = weights.sum(0).unsqueeze(-1).expand(-1, 2)
        return torch.cat([self.local.weighted_statistics(observation, weights), counts], -1)

    def design(self, features: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch column"]:
        row, column = self._upper()
        products = features[..., row] * features[..., column]
        return torch.cat([features, products, torch.ones_like(features[..., :1])], -1)

    def fold(self, statistics: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch column"]:
        linear, quadratic, third, fourth = self._unpack(statistics)
        row, column = self._upper()
        # Entries below the diagonal have the same column as those above.
        both = quadratic + quadratic.tril(-1).mT
        return torch.cat([linear, both[..., row, column], (third + fourth).unsqueeze(-1)], -1)

    def _upper(self) -> tuple[Tensor, Tensor]:
        return tuple(torch.triu_indices(self.dim, self.dim))

    @property
    def takes_gaps(self) -> bool:
        return True

    def log_marginals(self, statistics: Tensor, features: Tensor) -> Tensor:
        linear, quadratic, third, fourth = self._unpack(statistics)
        return gaussian_log_marginals(linear, -2 * quadratic, features) + third + fourth

    def log_base_measure_of_seen(self, features: Tensor) -> float:
        # The integral over each gap contains log(2 pi) / 2.
        return -self.dim * math.log(2 * math.pi) / 2

    def log_base_measure(self, observation: Tensor) -> float:
        return -self.dim * math.log(2 * math.pi) / 2

    def sample_observation(self, statistics: Tensor) -> Float[Tensor, "*batch dim"]:
        local = self.local
        return local.sample(statistics[..., : local.size])

    @property
    def unconstrained_size(self) -> int:
        return self.local.size

    def from_unconstrained(self, unconstrained: Tensor) -> GaussianParameters:
        mean, raw = self.local.unpack(unconstrained)
        factor = raw.tril(-1) + raw.diagonal(dim1=-2, dim2=-1).exp().diag_embed()
        return GaussianParameters(mean, factor @ factor.mT)

    def to_unconstrained(self, value: GaussianParameters) -> Tensor:
        factor = torch.linalg.cholesky(value.covariance)
        log_diagonal = factor.diagonal(dim1=-2, dim2=-1).log().diag_embed()
        return self.local.pack(value.mean, factor.tril(-1) + log_diagonal)
