"""The matrix-normal-inverse-Wishart family, conjugate prior of a linear regression.

Convention, for p regressors h, dimension d, ``size`` = p d + p^2 + d^2 + 1:

    x | h ~ N(W^T h, Sigma)
    W | Sigma ~ MatrixNormal(M, V^{-1}, Sigma),  Sigma ~ InverseWishart(S, nu)

    eta = (vec(V M), vec(V), vec(S + M^T V M), nu + d + p + 1)
    t   = (vec(W Lambda), vec(-W Lambda W^T / 2), vec(-Lambda / 2), log|Lambda| / 2)
    log Z = nu (d log 2 - log|S|) / 2 + log Gamma_d(nu / 2) + d (p log(2 pi) - log|V|) / 2

with Lambda = Sigma^{-1}. With one regressor that is always 1 it is the normal-inverse-Wishart. The
statistics of x at a fixed h are linear in t (``component``): those of a Gaussian with mean W^T h.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust.families.family import ExponentialFamily
from pyro_crowdclust.families.normal_inverse_wishart import NormalInverseWishart


class RegressionParameters(NamedTuple):
    """A value theta: ``coefficients`` W, ``covariance`` Sigma."""

    coefficients: Float[Tensor, "*batch regressor dim"]
    covariance: Float[Tensor, "*batch dim dim"]


class MatrixNormalInverseWishartParameters(NamedTuple):
    """Standard parameters: ``location`` M, ``precision`` V, ``scale`` S, ``degrees`` nu."""

    location: Float[Tensor, "*batch regressor dim"]
    precision: Float[Tensor, "*batch regressor regressor"]
    scale: Float[Tensor, "*batch dim dim"]
    degrees: Float[Tensor, "*batch"]


@dataclass(frozen=True)
class MatrixNormalInverseWishart(ExponentialFamily):
    """``MNIW(W, Sigma | M, V, S, nu)``; values are ``RegressionParameters``.

    Examples
    --------
    >>> import torch
    >>> family = MatrixNormalInverseWishart(1, num_regressors=2)
    >>> eta = family.natural(torch.zeros(2, 1), torch.eye(2), torch.eye(1), torch.tensor(3.0))
    >>> family.standard(eta).scale
    tensor([[1.]])
    """

    dim: int
    num_regressors: int

    @property
    def size(self) -> int:
        """Length of the natural parameters."""
        return sum(self._sizes())

    @property
    def component_family(self) -> NormalInverseWishart:
        """The family whose layout ``component`` returns."""
        return NormalInverseWishart(self.dim)

    def _sizes(self) -> tuple[int, int, int, int]:
        return self.num_regressors * self.dim, self.num_regressors**2, self.dim**2, 1

    def _unpack(self, flat: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        linear, regressors, quadratic, last = flat.split(self._sizes(), -1)
        return (
            linear.unflatten(-1, (self.num_regressors, self.dim)),
            regressors.unflatten(-1, (self.num_regressors, self.num_regressors)),
            quadratic.unflatten(-1, (self.dim, self.dim)),
            last.squeeze(-1),
        )

    @staticmethod
    def _pack(linear: Tensor, regressors: Tensor, quadratic: Tensor, last: Tensor) -> Tensor:
        matrices = (part.flatten(-2) for part in (linear, regressors, quadratic))
        return torch.cat([*matrices, last.unsqueeze(-1)], -1)

    def natural(
        self,
        location: Float[Tensor, "*batch regressor dim"],
        precision: Float[Tensor, "*batch regressor regressor"],
        scale: Float[Tensor, "*batch dim dim"],
        degrees: Float[Tensor, "*batch"],
    ) -> Tensor:
        weighted = precision @ location
        last = degrees + self.dim + self.num_regressors + 1
        return self._pack(weighted, precision, scale + location.mT @ weighted, last)

    def standard(self, natural_parameters: Tensor) -> MatrixNormalInverseWishartParameters:
        weighted, precision, second, last = self._unpack(natural_parameters)
        location = torch.cholesky_solve(weighted, torch.linalg.cholesky(precision))
        scale = second - weighted.mT @ location
        degrees = last - self.dim - self.num_regressors - 1
        return MatrixNormalInverseWishartParameters(
            location, precision, (scale + scale.mT) / 2, degrees
        )

    def _halves(self, degrees: Tensor) -> Float[Tensor, "*batch dim"]:
        offsets = torch.arange(self.dim, dtype=degrees.dtype, device=degrees.device)
        return (degrees.unsqueeze(-1) - offsets) / 2

    def log_normalizer(self, natural_parameters: Tensor) -> Tensor:
        _, precision, scale, degrees = self.standard(natural_parameters)
        # log Gamma_d(nu / 2) = d (d - 1) log(pi) / 4 + sum_i log Gamma((nu - i) / 2), i < d
        constant = self.dim * (
            (self.dim - 1) * math.log(math.pi) / 4 + self.num_regressors * math.log(2 * math.pi) / 2
        )
        return (
            torch.lgamma(self._halves(degrees)).sum(-1)
            + degrees / 2 * (self.dim * math.log(2) - _log_determinant(scale))
            - self.dim / 2 * _log_determinant(precision)
            + constant
        )

    def expected_statistics(self, natural_parameters: Tensor) -> Tensor:
        location, precision, scale, degrees = self.standard(natural_parameters)
        inverse_scale = torch.cholesky_inverse(torch.linalg.cholesky(scale))
        mean_precision = degrees[..., None, None] * inverse_scale
        spread = self.dim * torch.cholesky_inverse(torch.linalg.cholesky(precision))
        linear = location @ mean_precision
        digammas = torch.digamma(self._halves(degrees)).sum(-1)
        return self._pack(
            linear,
            (spread + linear @ location.mT) / -2,
            mean_precision / -2,
            (digammas + self.dim * math.log(2) - _log_determinant(scale)) / 2,
        )

    def sufficient_statistics(self, value: RegressionParameters) -> Tensor:
        coefficients, covariance = value
        precision = torch.linalg.inv(covariance)
        linear = coefficients @ precision
        log_determinant = torch.logdet(covariance)
        return self._pack(
            linear, linear @ coefficients.mT / -2, precision / -2, log_determinant / -2
        )

    def sample(self, natural_parameters: Tensor) -> RegressionParameters:
        location, precision, scale, degrees = self.standard(natural_parameters)
        of_covariance = self.component_family
        zeros, ones = torch.zeros_like(scale[..., 0]), torch.ones_like(degrees)
        covariance = of_covariance.sample(of_covariance.natural(zeros, ones, scale, degrees))[1]
        rows = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(precision)))
        columns = torch.linalg.cholesky(covariance)
        coefficients = location + rows @ torch.randn_like(location) @ columns.mT
        return RegressionParameters(coefficients, covariance)

    def in_domain(self, natural_parameters: Tensor) -> Bool[Tensor, "*batch"]:
        weighted, precision, second, last = self._unpack(natural_parameters)
        finite = natural_parameters.isfinite().all(-1)
        root, info = torch.linalg.cholesky_ex(precision)
        scale = second - weighted.mT @ torch.cholesky_solve(weighted, root)
        positive = (info == 0) & (torch.linalg.cholesky_ex(scale).info == 0)
        return finite & positive & (last > 2 * self.dim + self.num_regressors)

    def component(
        self,
        statistics: Float[Tensor, " size"],
        regressors: Float[Tensor, "component regressor"],
    ) -> Float[Tensor, "component niw"]:
        """``(h^T W Lambda, -Lambda / 2, -h^T W Lambda W^T h / 2, log|Lambda| / 2)`` for every h.

        The statistics of Gaussians with means ``W^T h`` and covariance Sigma, in the layout of
        ``NormalInverseWishart``; linear in t, so that their means are the statistics of the mean.
        """
        linear, products, quadratic, last = self._unpack(statistics)
        count = len(regressors)
        return torch.cat(
            [
                regressors @ linear,
                quadratic.flatten().expand(count, -1),
                ((regressors @ products) * regressors).sum(-1, keepdim=True),
                last.expand(count, 1),
            ],
            -1,
        )

    def with_regressors(
        self, statistics: Tensor, change: Float[Tensor, "regressor regressor"]
    ) -> Float[Tensor, "*batch size"]:
        """What sums of u(x, h), as a posterior adds to its prior, are if every h is ``change h``.

        ``u = (h x^T, h h^T, x x^T, 1)``, so that they are ``(A H, A V A^T, S, n)`` for change A.
        """
        linear, products, quadratic, last = self._unpack(statistics)
        return self._pack(change @ linear, change @ products @ change.mT, quadratic, last)


def _log_determinant(matrix: Float[Tensor, "*batch n n"]) -> Float[Tensor, "*batch"]:
    return 2 * torch.linalg.cholesky(matrix).diagonal(dim1=-2, dim2=-1).log().sum(-1)
