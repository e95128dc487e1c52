"""The multivariate Gaussian family, for local latents, and ``Moments``, the value of its sites.

Convention (Luo et al. 2018, appendix A.1), for dimension d, ``size`` = d + d^2:

    eta   = (Lambda mu, vec(-Lambda / 2))         with precision Lambda
    t(x)  = (x, vec(x x^T))
    log Z = mu^T Lambda mu / 2 - log|Lambda| / 2 + d log(2 pi) / 2

The value of a Gaussian *site* is ``Moments``: E[t(x)] = (m, vec M) and a root R, flattened to d + 2
d^2 numbers, where M = m m^T + R R^T. Functions that are linear in t(x) use the first d + d^2 of
them, and a reparameterized draw m + R e needs no factorization. A real point x is the special case
R = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust.families.family import ExponentialFamily, OutsideDomain

# Size of the parts in which points are processed, in numbers, so that these stay in the cache.
_NUMBERS = 2**18


class GaussianParameters(NamedTuple):
    """Standard parameters: ``mean`` ``[..., d]`` and ``covariance`` ``[..., d, d]``."""

    mean: Float[Tensor, "*batch dim"]
    covariance: Float[Tensor, "*batch dim dim"]


@dataclass(frozen=True)
class Gaussian(ExponentialFamily):
    """``N(x | mu, Sigma)`` with full covariance in ``dim`` dimensions; values are points ``x``.

    Examples
    --------
    >>> import torch
    >>> family = Gaussian(1)
    >>> eta = family.natural(torch.tensor([3.0]), torch.tensor([[4.0]]))
    >>> family.expected_statistics(eta)
    tensor([ 3., 13.])
    """

    dim: int

    @property
    def size(self) -> int:
        """Length of the natural parameters."""
        return self.dim + self.dim**2

    def pack(self, linear: Float[Tensor, "*batch dim"], quadratic: Tensor) -> Tensor:
        """Flatten a vector and a matrix to ``[..., d + d^2]``."""
        return torch.cat([linear, quadratic.flatten(-2)], -1)

    def unpack(self, flat: Float[Tensor, "*batch size"]) -> tuple[Tensor, Tensor]:
        """Inverse of ``pack``: ``([..., d], [..., d, d])``."""
        linear, quadratic = flat[..., : self.size].split([self.dim, self.dim**2], -1)
        return linear, quadratic.unflatten(-1, (self.dim, self.dim))

    def natural(self, mean: Tensor, covariance: Tensor) -> Tensor:
        precision = torch.linalg.inv(covariance)
        return self.pack((precision @ mean.unsqueeze(-1)).squeeze(-1), -precision / 2)

    def standard(self, natural_parameters: Tensor) -> GaussianParameters:
        linear, quadratic = self.unpack(natural_parameters)
        covariance = torch.linalg.inv(-2 * quadratic)
        return GaussianParameters((covariance @ linear.unsqueeze(-1)).squeeze(-1), covariance)

    def log_normalizer(self, natural_parameters: Tensor) -> Tensor:
        linear, quadratic = self.unpack(natural_parameters)
        cholesky = torch.linalg.cholesky(-2 * quadratic)
        whitened = torch.linalg.solve_triangular(cholesky, linear.unsqueeze(-1), upper=False)
        half_log_determinant = cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        constant = self.dim * math.log(2 * math.pi) / 2
        return whitened.square().sum((-2, -1)) / 2 - half_log_determinant + constant

    def expected_statistics(self, natural_parameters: Tensor) -> Tensor:
        mean, covariance = self.standard(natural_parameters)
        return self.pack(mean, covariance + mean.unsqueeze(-1) * mean.unsqueeze(-2))

    def sufficient_statistics(self, value: Float[Tensor, "*batch dim"]) -> Tensor:
        return self.pack(value, value.unsqueeze(-1) * value.unsqueeze(-2))

    def inner_products(
        self, parameters: Float[Tensor, "cluster size"], points: Float[Tensor, "*batch dim"]
    ) -> Float[Tensor, "*batch cluster"]:
        """``<eta_k, t(x)> = x^T (h_k + Q_k x)``, without the d + d^2 numbers t(x) of many features.

        Its gradient in eta_k is ``weighted_statistics``.
        """
        if self.dim <= len(parameters):
            # Products with all clusters would be more numbers than t(x).
            statistics = self.sufficient_statistics(points)
            # With the few clusters on the left the product takes half the time.
            return torch.inner(parameters, statistics).movedim(0, -1)
        linear, quadratic = self.unpack(parameters)
        slopes, constants = quadratic.flatten(0, 1), linear.reshape(-1, 1)
        scores = []
        for part in points.reshape(-1, self.dim).split(_rows_of(slopes)):
            # With points side by side all operations run along many numbers, also for few features.
            columns = part.mT.contiguous()
            products = torch.addmm(constants, slopes, columns).unflatten(0, linear.shape)
            scores.append((products * columns).sum(1))
        return torch.cat(scores, 1).mT.reshape(*points.shape[:-1], len(linear))

    def weighted_statistics(
        self, points: Float[Tensor, "row dim"], weights: Float[Tensor, "row cluster"]
    ) -> Float[Tensor, "cluster size"]:
        """``sum_n w_nk t(x_n) = (X^T w_k, X^T diag(w_k) X)``."""
        quadratic = points.new_zeros(weights.shape[1] * self.dim, self.dim)
        rows = _rows_of(quadratic)
        for part, own in zip(points.split(rows), weights.split(rows), strict=True):
            weighted = own.mT.unsqueeze(1) * part.mT.contiguous()
            quadratic.addmm_(weighted.flatten(0, 1), part)
        return self.pack(weights.mT @ points, quadratic.unflatten(0, (-1, self.dim)))

    def sample(self, natural_parameters: Tensor) -> Float[Tensor, "*batch dim"]:
        return self.moments(natural_parameters).draw()

    def in_domain(self, natural_parameters: Tensor) -> Bool[Tensor, "*batch"]:
        _, quadratic = self.unpack(natural_parameters)
        finite = natural_parameters.isfinite().all(-1)
        return finite & (torch.linalg.cholesky_ex(-2 * quadratic).info == 0)

    @property
    def unconstrained_size(self) -> int:
        return self.dim

    def from_unconstrained(self, unconstrained: Tensor) -> Float[Tensor, "*batch dim"]:
        return unconstrained

    def to_unconstrained(self, value: Float[Tensor, "*batch dim"]) -> Tensor:
        return value

    def moments(self, natural_parameters: Float[Tensor, "*batch size"]) -> Moments:
        """Mean and root of N(eta), from one Cholesky factorization.

        With Lambda = L L^T and W = L^{-1} the root is R = W^T, so that R R^T is the covariance,
        and the mean is ``W^T W h``.

        Raises
        ------
        ValueError
            If a precision is not positive definite.
        """
        linear, quadratic = self.unpack(natural_parameters)
        inverse = _InverseCholesky.apply(-2 * quadratic)
        mean = (inverse.mT @ (inverse @ linear.unsqueeze(-1))).squeeze(-1)
        return Moments.with_root(mean, inverse.mT)


def _rows_of(matrices: Float[Tensor, "entry dim"]) -> int:
    """How many points to process at a time, which have products with all of these."""
    return max(_NUMBERS // len(matrices), 1)


def inverse_cholesky(precision: Float[Tensor, "*batch dim dim"]) -> Tensor:
    """``W = L^{-1}`` with ``precision = L L^T``.

    Raises
    ------
    OutsideDomain
        If a precision is not positive definite. On a GPU the result becomes NaN instead, which is
        detected when the loss is read: a check here would wait for the device.
    """
    if precision.is_cpu:
        cholesky = _checked_cholesky(precision)
    else:
        cholesky, info = torch.linalg.cholesky_ex(precision)
        cholesky = cholesky.masked_fill((info != 0)[..., None, None], torch.nan)
    identity = torch.eye(cholesky.shape[-1], dtype=cholesky.dtype, device=cholesky.device)
    return torch.linalg.solve_triangular(cholesky, identity, upper=False)


def _checked_cholesky(precision: Float[Tensor, "*batch dim dim"]) -> Tensor:
    try:
        return torch.linalg.cholesky(precision)
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]  # torch's stub
        raise OutsideDomain(
            "the precision of a Gaussian latent is not positive definite, because the natural "
            "parameters of the components have left their domain: use a smaller step size"
        ) from error


def root_sensitivity(gradient: Tensor, inverse: Tensor) -> Float[Tensor, "*batch dim dim"]:
    """The symmetric P in ``grad Lambda = -W^T P W / 2``, from the gradient G of ``W = L^{-1}``.

    P has the lower triangle of ``tril(G) W^T``.
    """
    lower = (gradient.tril() @ inverse.mT).tril()
    return lower + lower.tril(-1).mT


class _InverseCholesky(torch.autograd.Function):
    """``inverse_cholesky``, with three small products in the backward pass."""

    @staticmethod
    def forward(ctx: Any, precision: Tensor) -> Tensor:
        inverse = inverse_cholesky(precision)
        ctx.save_for_backward(inverse)
        return inverse

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (inverse,) = ctx.saved_tensors
        return inverse.mT @ root_sensitivity(gradient, inverse) @ inverse / -2


def second_moment(
    mean: Float[Tensor, "*batch dim"], covariance: Float[Tensor, "*batch dim dim"]
) -> Float[Tensor, "*batch dim dim"]:
    """``m m^T + C``."""
    return torch.addcmul(covariance, mean.unsqueeze(-1), mean.unsqueeze(-2))


class Moments(NamedTuple):
    """A Gaussian: mean m, second moment M = m m^T + R R^T, and upper triangular root R.

    The covariance is R R^T; a real point has R = 0.
    """

    mean: Float[Tensor, "*batch dim"]
    second: Float[Tensor, "*batch dim dim"]
    root: Float[Tensor, "*batch dim dim"]

    @staticmethod
    def with_root(mean: Float[Tensor, "*batch dim"], root: Tensor) -> Moments:
        """The moments of ``m + R e`` with standard normal e."""
        return Moments(mean, second_moment(mean, root @ root.mT), root)

    @staticmethod
    def point(value: Float[Tensor, "*batch dim"]) -> Moments:
        """The moments of a known point: no spread."""
        second = value.unsqueeze(-1) * value.unsqueeze(-2)
        return Moments(value, second, torch.zeros_like(second))

    def expected_statistics(self) -> Float[Tensor, "*batch size"]:
        """E[t(x)] = (m, vec M)."""
        return torch.cat([self.mean, self.second.flatten(-2)], -1)

    def flat(self) -> Float[Tensor, "*batch moments"]:
        """The value of a Gaussian site: (m, vec M, vec R)."""
        return torch.cat([self.mean, self.second.flatten(-2), self.root.flatten(-2)], -1)

    @staticmethod
    def size(dim: int) -> int:
        """Length of the value of a Gaussian site."""
        return dim + 2 * dim**2

    @staticmethod
    def of(value: Float[Tensor, "*batch moments"]) -> Moments:
        """Read the value of a Gaussian site; its length d + 2 d^2 gives d."""
        dim = (math.isqrt(1 + 8 * value.shape[-1]) - 1) // 4
        mean, *matrices = value.split([dim, dim**2, dim**2], -1)
        return Moments(mean, *(part.unflatten(-1, (dim, dim)) for part in matrices))

    def draw(self, noise: Float[Tensor, "*batch dim"] | None = None) -> Tensor:
        """A reparameterized draw ``m + R e`` with standard normal e, drawn if not given."""
        if noise is None:
            noise = torch.randn_like(self.mean)
        # Faster for small matrices than a batched product, especially in the backward pass.
        return self.mean + (self.root * noise.unsqueeze(-2)).sum(-1)


class IndependentMoments(NamedTuple):
    """A Gaussian with independent dimensions: mean m and deviations s, covariance diag(s^2).

    The value of a Gaussian site in 2 d numbers, where ``Moments`` needs d + 2 d^2. A real point has
    s = 0.
    """

    mean: Float[Tensor, "*batch dim"]
    scale: Float[Tensor, "*batch dim"]

    def flat(self) -> Float[Tensor, "*batch size"]:
        """The value of a Gaussian site: (m, s)."""
        return torch.cat([self.mean, self.scale], -1)

    @staticmethod
    def of(value: Float[Tensor, "*batch size"]) -> IndependentMoments:
        """Read the value of a Gaussian site of independent dimensions."""
        return IndependentMoments(*value.chunk(2, -1))

    @staticmethod
    def point(value: Float[Tensor, "*batch dim"]) -> IndependentMoments:
        """The moments of a known point: no spread."""
        return IndependentMoments(value, torch.zeros_like(value))

    def full(self) -> Moments:
        """The same Gaussian with matrices."""
        second = second_moment(self.mean, self.scale.square().diag_embed())
        return Moments(self.mean, second, self.scale.diag_embed())

    def draw(self, noise: Float[Tensor, "*batch dim"] | None = None) -> Tensor:
        """A reparameterized draw ``m + s e`` with standard normal e, drawn if not given."""
        noise = torch.randn_like(self.mean) if noise is None else noise
        return torch.addcmul(self.mean, self.scale, noise)
