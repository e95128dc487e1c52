"""Posteriors whose sites return ``E_q[t(theta)]``, not a draw."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Num
from torch import Tensor

from pyro_crowdclust.distributions.statistics import Conjugate, StatisticValued
from pyro_crowdclust.families import ExponentialFamily, Moments


class RealDraws(NamedTuple):
    """Draws from q for a site whose value is otherwise the mean of q; the first axis is the draw.

    ``value`` is theta in the form that a family's ``sample`` returns, ``statistics`` is t(theta).
    """

    value: Any
    statistics: Float[Tensor, "draw *batch size"]


@runtime_checkable
class SupportsRealDraws(Protocol):
    """A distribution whose site has the mean of q as its value, but from which one can draw."""

    def real_draws(self, num_draws: int) -> RealDraws:
        """Draws of theta and of its statistics."""


class ConjugateAtMean(StatisticValued):
    """A posterior q(theta | eta) whose site returns ``E_q[t(theta)]`` instead of a draw.

    ``log q = <eta, E[t]> - log Z(eta)`` at its own mean is minus the entropy. Its derivative in
    eta with the mean held fixed is ``E[t] - grad log Z(eta) = 0``, so eta is held fixed there and
    gradients flow through the mean alone. With ``natural_gradient`` the mean passes its gradient
    on unchanged, so that ``eta.grad`` is the natural gradient of the loss.

    Parameters
    ----------
    family
        The exponential family.
    natural_parameters
        eta, shape ``[..., size]``.
    natural_gradient
        True for global parameters that a ``NaturalGradient`` optimizer steps; False for local
        ones, through which networks learn by ordinary gradients.
    """

    def __init__(
        self,
        family: ExponentialFamily,
        natural_parameters: Float[Tensor, "*batch size"],
        natural_gradient: bool = False,
    ) -> None:
        self.family = family
        self.natural_parameters = natural_parameters.detach()
        if natural_gradient:
            mean, self.log_normalizer = family.mean_and_log_normalizer(self.natural_parameters)
            self.statistics = family.natural_gradient_mean(natural_parameters, mean)
        else:
            self.statistics = family.expected_statistics(natural_parameters)
            self.log_normalizer = family.log_normalizer_at_mean(
                self.natural_parameters, self.statistics.detach()
            )
        super().__init__(natural_parameters.shape[:-1], natural_parameters.shape[-1:])

    def rsample(self, sample_shape: Any = ()) -> Float[Tensor, "*batch size"]:
        self._one_draw(sample_shape)
        return self.statistics

    def log_prob(self, value: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch"]:
        inner_product = self.family.inner_product(self.natural_parameters, value)
        return inner_product - self.log_normalizer

    def divergence(self, prior: Conjugate) -> Float[Tensor, ""]:
        """``KL(q || p) = <eta - eta_p, E_q[t]> - log Z(eta) + log Z(eta_p)``, summed over rows.

        Its gradient in the mean, with eta held fixed, is ``eta - eta_p``.
        """
        difference = (self.natural_parameters - prior.natural_parameters).flatten()
        log_normalizers = self.log_normalizer - prior.log_normalizer
        return torch.dot(difference, self.statistics.flatten()) - log_normalizers.sum()

    def real_draws(self, num_draws: int) -> RealDraws:
        """Real theta from q(theta | eta), instead of the mean."""
        eta = self.natural_parameters
        value = self.family.sample(eta.expand(num_draws, *eta.shape))
        # A probability that was rounded to zero has an infinite logarithm, and 0 * inf is NaN.
        statistics = self.family.sufficient_statistics(value)
        return RealDraws(value, statistics.nan_to_num(nan=math.nan, neginf=-800.0))


class GaussianAtMean(StatisticValued):
    """A Gaussian posterior of a latent; the value of the site is its ``Moments``.

    ``E[log q]`` under the moments (m', R') of a value, with root R of q:
    ``-log|R| - |R^{-1} (m' - m)|^2 / 2 - |R^{-1} R'|_F^2 / 2 - d log(2 pi) / 2``, which is minus
    the entropy at its own moments.

    Parameters
    ----------
    moments
        ``Moments`` whose root is upper triangular (or diagonal) with a positive diagonal.
    """

    def __init__(self, moments: Moments) -> None:
        self.moments = moments
        self._log_determinant = moments.root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        self._value = moments.flat()
        super().__init__(self._value.shape[:-1], self._value.shape[-1:])

    def rsample(self, sample_shape: Any = ()) -> Float[Tensor, "*batch moments"]:
        self._one_draw(sample_shape)
        return self._value

    def log_prob(self, value: Float[Tensor, "*batch moments"]) -> Float[Tensor, "*batch"]:
        mean, _, root = self.moments
        dim = mean.shape[-1]
        constant = dim * math.log(2 * math.pi) / 2
        if value is self._value:
            return -(dim / 2 + constant) - self._log_determinant
        other = Moments.of(value)
        away = torch.cat([(other.mean - mean).unsqueeze(-1), other.root], -1)
        whitened = torch.linalg.solve_triangular(root, away, upper=True)
        return -constant - self._log_determinant - whitened.square().sum((-2, -1)) / 2

    def real_draws(self, num_draws: int) -> RealDraws:
        """Real latents from q, instead of its moments."""
        moments = Moments(*(part.expand(num_draws, *part.shape) for part in self.moments))
        value = moments.draw()
        return RealDraws(value, Moments.point(value).flat())


class Point(StatisticValued):
    """A point estimate: the site's value is given, its log-density in the guide is ``log_density``.

    With ``log_density`` zero the ELBO contains the log prior of theta at the point (maximum a
    posteriori), with ``-log |d theta / d u|`` it contains the log prior of the coordinates u; with
    the prior's own log-density the prior cancels, which leaves maximum likelihood.

    Parameters
    ----------
    value
        Statistics t(theta) of a real theta, shape ``[..., size]``.
    log_density
        Shape ``[...]``, or zero.
    theta
        The real theta, in the form that the family's ``sample`` returns, for ``real_draws``.
    """

    def __init__(
        self,
        value: Num[Tensor, "*batch size"],
        log_density: Float[Tensor, "*batch"] | None = None,
        theta: Any = None,
    ) -> None:
        self._value = value
        self._log_density = log_density
        self._theta = value if theta is None else theta
        super().__init__(value.shape[:-1], value.shape[-1:])

    def rsample(self, sample_shape: Any = ()) -> Num[Tensor, "*batch size"]:
        self._one_draw(sample_shape)
        return self._value

    def log_prob(self, value: Num[Tensor, "*batch size"]) -> Num[Tensor, "*batch"]:
        if self._log_density is not None:
            return self._log_density
        return value.new_zeros(self.batch_shape)

    def real_draws(self, num_draws: int) -> RealDraws:
        """Copies of the point."""
        return RealDraws(_repeated(self._theta, num_draws), _repeated(self._value, num_draws))


def _repeated(value: Any, times: int) -> Any:
    """A tensor, or a named tuple of tensors, with a new first axis."""
    if isinstance(value, Tensor):
        return value.expand(times, *value.shape)
    return type(value)(*(_repeated(part, times) for part in value))
