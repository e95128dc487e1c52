"""Statistic-valued Pyro distributions: the value of a site is t(theta), not theta.

The value of a conjugate site is the sufficient statistic t(theta), not theta. All log-densities of
the library are then multilinear in the site values, so evaluating them at the means E_q[t] *is*
taking the expectation, and Pyro's ordinary ELBO is exact. There are three kinds:

- priors (``Conjugate``) draw a real theta and return t(theta), so a model simulates;
- posteriors (of ``at_mean.py``) return their mean, not a draw;
- likelihoods (of ``likelihoods.py``, ``pairs.py`` and ``pages.py``) are linear in every statistic.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from jaxtyping import Float
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import biject_to, constraints, transform_to

from pyro_crowdclust.families import ExponentialFamily


class StatisticVector(constraints.Constraint):
    """Real vectors; not every one is the statistic of some theta.

    Autoguides and NUTS ask for unconstrained coordinates of a site, and there are none: these
    log-densities are linear functions of a real vector, which grow without bound.
    """

    event_dim = 1
    refusal = (
        "the values of some sites of the model are sufficient statistics, but Pyro's autoguides "
        "and NUTS would replace them by arbitrary real numbers: fit a model of this library with "
        "one of its guides, such as MessagePassingGuide(model); for an autoguide, write the model "
        "with Pyro's own priors, and wrap the guide in EnumeratedGuide if there are answers"
    )

    def check(self, value: Tensor) -> Tensor:
        return (value == value).all(-1)


def refuse_coordinates(constraint: StatisticVector) -> NoReturn:
    """Raise the ``ValueError`` of values without unconstrained coordinates."""
    raise ValueError(constraint.refusal)


biject_to.register(StatisticVector, refuse_coordinates)
transform_to.register(StatisticVector, refuse_coordinates)


class StatisticValued(TorchDistribution):
    """Base of all statistic-valued distributions: real vectors, no argument constraints."""

    arg_constraints: dict[str, Any] = {}
    support: constraints.Constraint = StatisticVector()
    has_rsample = True
    adds_nothing = False  # True of a site whose log-density is zero

    def __init__(self, batch_shape: torch.Size, event_shape: torch.Size) -> None:
        super().__init__(batch_shape, event_shape, validate_args=False)

    def expand(self, batch_shape: Any, _instance: Any = None) -> TorchDistribution:
        """The same distribution with a larger batch shape."""
        batch_shape = torch.Size(batch_shape)
        # Plates call this for every site; returning self keeps a posterior's value the same object,
        # which its log-density recognizes.
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
