"""Statistic-valued Pyro distributions.

A conjugate site carries as its value the sufficient statistic t(theta), not theta. All
log-densities of the library are then multilinear in the site values, so that evaluating them at
the means E_q[t] *is* taking the expectation, and Pyro's ordinary ELBO is exact. Three kinds:

- priors (``Conjugate``) draw a real theta and return t(theta), so a model simulates;
- posteriors (``ConjugateAtMean``, ``GaussianAtMean``, ``Point``) return their mean, not a draw;
- likelihoods (``Assignment``, ``ComponentObservation``, and those of ``pairs.py``) are linear in
  every statistic that they are given.

A z is one-hot, or the probabilities of all clusters, or these as a sparse matrix. Under a dense z
an item has one latent, whatever its cluster; under a sparse one it has a latent in every cluster
that is stored, a row (``Rows``) each.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, NoReturn, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Num
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import biject_to, constraints, transform_to

from pyro_crowdclust.distributions.rows import Rows
from pyro_crowdclust.families import ExponentialFamily, Moments, RowDensity


class _StatisticVector(constraints.Constraint):
    """Real vectors, of which not every one is the statistic of some theta.

    Autoguides and NUTS ask for unconstrained coordinates of a site, and there are none: of any real
    vector these log-densities are linear functions, which grow without bound.
    """

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value == value).all(-1)


def _refuse_coordinates(constraint: constraints.Constraint) -> NoReturn:
    raise ValueError(
        "the values of some sites of the model are sufficient statistics, for which Pyro's "
        "autoguides and NUTS would put any real numbers: fit a model of this library with one of "
        "its guides, MessagePassingGuide(model) say; for an autoguide write the model with Pyro's "
        "own priors, and wrap the guide in EnumeratedGuide if there are answers"
    )


biject_to.register(_StatisticVector, _refuse_coordinates)
transform_to.register(_StatisticVector, _refuse_coordinates)


class StatisticValued(TorchDistribution):
    """What all statistic-valued distributions share: real vectors, no argument constraints."""

    arg_constraints: dict[str, Any] = {}
    support: constraints.Constraint = _StatisticVector()
    has_rsample = True
    adds_nothing = False  # True of a site whose log-density is zero

    def __init__(self, batch_shape: torch.Size, event_shape: torch.Size) -> None:
        super().__init__(batch_shape, event_shape, validate_args=False)

    def expand(self, batch_shape: Any, _instance: Any = None) -> TorchDistribution:
        """The same distribution with a larger batch shape."""
        batch_shape = torch.Size(batch_shape)
        # A plate asks every site; returning self keeps a posterior's value the very object that
        # its log-density recognizes.
        return self if batch_shape == self.batch_shape else self._expanded(batch_shape)

    def _expanded(self, batch_shape: torch.Size) -> TorchDistribution:
        return super().expand(batch_shape)

    def _one_draw(self, sample_shape: Any) -> None:
        if tuple(sample_shape):
            raise NotImplementedError(
                f"{type(self).__name__} draws one value per site: use a plate for more, and have "
                "Pyro draw one after the other (vectorize_particles=False, parallel=False)"
            )


class Conjugate(StatisticValued):
    """A prior: draws theta and returns t(theta); ``log p = <eta, t> - log Z(eta)``.

    Parameters
    ----------
    family
        The exponential family.
    natural_parameters
        eta, shape ``[..., size]``.
    log_normalizer
        log Z(eta), shape ``[...]``, if it is known already.
    """

    def __init__(
        self,
        family: ExponentialFamily,
        natural_parameters: Float[Tensor, "*batch size"],
        log_normalizer: Float[Tensor, "*batch"] | None = None,
    ) -> None:
        self.family = family
        self.natural_parameters = natural_parameters
        self._log_normalizer = log_normalizer
        super().__init__(natural_parameters.shape[:-1], natural_parameters.shape[-1:])

    def _expanded(self, batch_shape: torch.Size) -> Conjugate:
        log_normalizer = self._log_normalizer
        if log_normalizer is not None:
            log_normalizer = log_normalizer.expand(batch_shape)
        eta = self.natural_parameters.expand(batch_shape + self.event_shape)
        return Conjugate(self.family, eta, log_normalizer)

    @property
    def log_normalizer(self) -> Float[Tensor, "*batch"]:
        """log Z(eta)."""
        if self._log_normalizer is None:
            self._log_normalizer = self.family.log_normalizer(self.natural_parameters)
        return self._log_normalizer

    def rsample(self, sample_shape: Any = ()) -> Float[Tensor, "*batch size"]:
        self._one_draw(sample_shape)
        return self.family.sufficient_statistics(self.family.sample(self.natural_parameters))

    def log_prob(self, value: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch"]:
        return (self.natural_parameters * value).sum(-1) - self.log_normalizer


class RealDraws(NamedTuple):
    """Draws from q of a site whose value is else the mean of q; the first axis counts the draws.

    ``value`` is theta in the form that a family's ``sample`` returns, ``statistics`` is t(theta).
    """

    value: Any
    statistics: Float[Tensor, "draw *batch size"]


@runtime_checkable
class SupportsRealDraws(Protocol):
    """A distribution whose site carries the mean of q, but that can be drawn from."""

    def real_draws(self, num_draws: int) -> RealDraws:
        """Draws of theta and of its statistics."""


class ConjugateAtMean(StatisticValued):
    """A posterior q(theta | eta) whose site returns ``E_q[t(theta)]`` in place of a draw.

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
        # A probability that was rounded to zero has an infinite logarithm; 0 * inf is no number.
        statistics = self.family.sufficient_statistics(value)
        return RealDraws(value, statistics.nan_to_num(nan=math.nan, neginf=-800.0))


class GaussianAtMean(StatisticValued):
    """A Gaussian posterior of a latent; the site's value are its ``Moments``.

    ``E[log q]`` under the moments (m', R') of a value, with root R of q:
    ``-log|R| - |R^{-1} (m' - m)|^2 / 2 - |R^{-1} R'|_F^2 / 2 - d log(2 pi) / 2``, which is minus
    the entropy at its own moments.

    Parameters
    ----------
    moments
        ``Moments`` whose root is upper triangular (or diagonal) with a positive diagonal.
    log_determinant
        log|R| of the root, if it is known already.
    """

    def __init__(
        self, moments: Moments, log_determinant: Float[Tensor, "*batch"] | None = None
    ) -> None:
        self.moments = moments
        if log_determinant is None:
            log_determinant = moments.root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        self._log_determinant = log_determinant
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
    posteriori), with minus that of other coordinates, ``-log |d theta / d u|``, the log prior of
    these; with the prior's own log-density it cancels, and what is left is maximum likelihood.

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
        """The point, again and again."""
        return RealDraws(_repeated(self._theta, num_draws), _repeated(self._value, num_draws))


def _repeated(value: Any, times: int) -> Any:
    """A tensor, or a named tuple of tensors, with a new first axis."""
    if isinstance(value, Tensor):
        return value.expand(times, *value.shape)
    return type(value)(*(_repeated(part, times) for part in value))


class Assignment(StatisticValued):
    """``log p(z | pi) = <z, log pi>``: one-hot z, or the probabilities of z.

    Parameters
    ----------
    log_weights
        log pi, or its expectation (which need not be normalized), shape ``[..., K]``.
    """

    has_rsample = False
    has_enumerate_support = True

    def __init__(self, log_weights: Float[Tensor, "*batch cluster"]) -> None:
        self.log_weights = log_weights
        self._shared: Tensor | None = None
        super().__init__(log_weights.shape[:-1], log_weights.shape[-1:])

    def _expanded(self, batch_shape: torch.Size) -> Assignment:
        expanded = Assignment(self.log_weights.expand(batch_shape + self.event_shape))
        expanded._shared = self.log_weights if self.log_weights.dim() == 1 else None
        return expanded

    def sample(self, sample_shape: Any = ()) -> Float[Tensor, "*batch cluster"]:
        self._one_draw(sample_shape)
        return torch.distributions.OneHotCategorical(
            logits=self.log_weights, validate_args=False
        ).sample()

    def log_prob(self, value: Float[Tensor, "*#batch cluster"]) -> Float[Tensor, "*#batch"]:
        if value.is_sparse:
            rows = Rows.of(value)
            return rows.total(self.log_weights[rows.item, rows.cluster])
        shared = self._shared
        if shared is not None and value.shape[:-1] == self.batch_shape:
            # A matrix-vector product, in less than half the passes over memory.
            return value @ shared.to(value.dtype)
        return (self.log_weights * value).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Float[Tensor, "value *batch cluster"]:
        num_clusters = self.event_shape[0]
        one_hot = torch.eye(
            num_clusters, dtype=self.log_weights.dtype, device=self.log_weights.device
        )
        one_hot = one_hot.reshape(num_clusters, *(1,) * len(self.batch_shape), num_clusters)
        if expand:
            one_hot = one_hot.expand(num_clusters, *self.batch_shape, num_clusters)
        return one_hot


class ComponentObservation(StatisticValued):
    """``log p(x | z, theta) = sum_k z_k <t(theta_k), u(x)> + log h(x)`` of a mixture.

    All clusters are scored by one matrix product. Under a sparse z the value has a row for every
    stored entry, and ``log p = sum_k z_k (<t(theta_k), u(x_k)> + log h(x_k))``.

    Parameters
    ----------
    family
        Conjugate prior of the components, e.g. ``NormalInverseWishart``.
    statistics
        t(theta_k) of every component or their expectations, shape ``[K, size]``.
    assignments
        One-hot z or probabilities, shape ``[..., K]``, dense or sparse.
    observation_size
        Length of a value x: ``family.observation_size``.
    """

    def __init__(
        self,
        family: RowDensity,
        statistics: Float[Tensor, "cluster size"],
        assignments: Float[Tensor, "*batch cluster"],
        observation_size: int,
    ) -> None:
        self.family = family
        self.statistics = statistics
        self.assignments = assignments
        super().__init__(assignments.shape[:-1], torch.Size([observation_size]))

    def _expanded(self, batch_shape: torch.Size) -> ComponentObservation:
        shape = batch_shape + self.assignments.shape[-1:]
        return ComponentObservation(
            self.family, self.statistics, self.assignments.expand(shape), self.event_shape[0]
        )

    def rsample(self, sample_shape: Any = ()) -> Float[Tensor, "*batch observation"]:
        self._one_draw(sample_shape)
        return self.family.sample_observation(self.assignments @ self.statistics)

    def log_prob(self, value: Float[Tensor, "*row observation"]) -> Float[Tensor, "*batch"]:
        statistics = self.statistics.to(value.dtype)
        if self.assignments.is_sparse:
            rows = Rows.of(self.assignments)
            assert isinstance(self.family, ExponentialFamily)  # rows of latents are whole
            return rows.total(log_density_of_rows(self.family, statistics, rows, value))
        scores = self.family.log_likelihoods(statistics, value)
        return (scores * self.assignments).sum(-1) + self.family.log_base_measure(value)


def log_density_of_rows(
    family: ExponentialFamily,
    statistics: Float[Tensor, "cluster size"],
    rows: Rows,
    value: Float[Tensor, "row observation"],
) -> Float[Tensor, " row"]:
    """``<t(theta_k), u(x_k)> + log h(x_k)``: of every row in the component of its own cluster."""
    own = statistics.index_select(0, rows.cluster)
    scores = (family.observation_statistics(value) * own).sum(-1)
    return scores + family.log_base_measure(value)
