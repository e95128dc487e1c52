"""Base class of exponential families: a few methods to implement, and others that follow.

Every family of the library writes its density as

    log p(theta | eta) = <eta, t(theta)> - log Z(eta)

with natural parameters ``eta`` and sufficient statistics ``t`` stored as flat vectors on the last
axis, so that ``<., .>`` is a plain sum of products. Constants of the base measure are part of
``log Z``. A family object holds sizes only, never parameters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust.families.gaps import without_gaps
from pyro_crowdclust.families.summaries import PosteriorSummary


class OutsideDomain(ValueError):
    """Natural parameters for which the density cannot be normalized."""


class _IdentityBackwardMean(torch.autograd.Function):
    """Map eta to E[t] and hand the gradient with respect to E[t] back as the gradient of eta."""

    # With ``setup_context`` every call would inspect the signature of ``forward``, which takes
    # longer than everything else here; so no analytic gradient of the library uses it.
    @staticmethod
    def forward(ctx: Any, natural_parameters: Tensor, mean: Tensor) -> Tensor:
        return mean

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class ExponentialFamily(ABC):
    """A family ``log p(theta | eta) = <eta, t(theta)> - log Z(eta)``.

    Subclasses state their convention (order, offsets, signs, shapes) at the top of their file and
    implement the abstract verbs below; the others follow from them. A subclass that is the prior
    of a likelihood ``log p(x | theta) = <t(theta), u(x)> + log h(x)`` also implements
    ``observation_statistics`` (``u``), ``log_base_measure`` (``log h``) and ``sample_observation``,
    and, to serve as the components of a mixture, ``num_features``.

    Attributes
    ----------
    size
        Length of the flat natural parameter and statistic vectors.
    """

    if TYPE_CHECKING:
        # Declared as read-only, since it is a number or a property of other sizes.
        @property
        def size(self) -> int: ...

    @abstractmethod
    def natural(self, *standard: Any) -> Float[Tensor, "*batch size"]:
        """Natural parameters of the given standard parameters."""

    @abstractmethod
    def standard(self, natural_parameters: Float[Tensor, "*batch size"]) -> Any:
        """Inverse of ``natural``: a named tuple of standard parameters."""

    @abstractmethod
    def log_normalizer(
        self, natural_parameters: Float[Tensor, "*batch size"]
    ) -> Float[Tensor, "*batch"]:
        """``log Z(eta)``."""

    @abstractmethod
    def expected_statistics(
        self, natural_parameters: Float[Tensor, "*batch size"]
    ) -> Float[Tensor, "*batch size"]:
        """``E[t(theta)]``, which is the gradient of ``log Z``."""

    def natural_of_mean(
        self, statistics: Float[Tensor, "*batch size"]
    ) -> Float[Tensor, "*batch size"]:
        """Natural parameters with this mean ``E[t(theta)]``.

        The inverse of ``expected_statistics``. At an average of means it maximizes
        ``sum_k E_k[log p(theta_k | eta)]``: the best prior for several posteriors.
        """
        raise NotImplementedError(f"{self} has no natural_of_mean, which learned priors need")

    @abstractmethod
    def sufficient_statistics(self, value: Any) -> Float[Tensor, "*batch size"]:
        """``t(theta)`` of a value, in the form that ``sample`` returns."""

    @abstractmethod
    def sample(self, natural_parameters: Float[Tensor, "*batch size"]) -> Any:
        """One draw of ``theta`` for every row of ``natural_parameters``."""

    @abstractmethod
    def in_domain(self, natural_parameters: Float[Tensor, "*batch size"]) -> Bool[Tensor, "*batch"]:
        """Whether the density can be normalized, row by row."""

    def mean_and_log_normalizer(
        self, natural_parameters: Float[Tensor, "*batch size"]
    ) -> tuple[Float[Tensor, "*batch size"], Float[Tensor, "*batch"]]:
        """``E[t(theta)]`` and ``log Z(eta)``; overridden where they share work."""
        return (
            self.expected_statistics(natural_parameters),
            self.log_normalizer(natural_parameters),
        )

    def log_normalizer_at_mean(
        self,
        natural_parameters: Float[Tensor, "*batch size"],
        mean: Float[Tensor, "*batch size"],
    ) -> Float[Tensor, "*batch"]:
        """``log Z(eta)``, given ``E[t(theta)]``; overridden by families where this is faster."""
        return self.log_normalizer(natural_parameters)

    @property
    def num_features(self) -> int:
        """Number of features of an item in the conjugate likelihood."""
        raise NotImplementedError(f"{self} is not the conjugate prior of a likelihood of vectors")

    @property
    def observation_size(self) -> int:
        """Length of an observation x, the value of a site."""
        return self.num_features

    def observed(self, features: Float[Tensor, "*batch feature"]) -> Float[Tensor, "*batch obs"]:
        """The observation x of known features."""
        return features

    def features(self, observation: Float[Tensor, "*batch obs"]) -> Float[Tensor, "*batch feature"]:
        """Inverse of ``observed``; for an uncertain observation its mean."""
        return observation

    def observation_statistics(self, observation: Any) -> Float[Tensor, "*batch size"]:
        """``u(x)`` of the conjugate likelihood ``log p(x|theta) = <t(theta), u(x)> + log h(x)``."""
        raise NotImplementedError(f"{self} is not the conjugate prior of a likelihood")

    def log_likelihoods(
        self, statistics: Float[Tensor, "cluster size"], observation: Float[Tensor, "*batch obs"]
    ) -> Float[Tensor, "*batch cluster"]:
        """``<t(theta_k), u(x)>``: log p(x | theta_k) of every cluster, without log h(x)."""
        return self.observation_statistics(observation) @ statistics.mT

    def weighted_statistics(
        self, observation: Float[Tensor, "row obs"], weights: Float[Tensor, "row cluster"]
    ) -> Float[Tensor, "cluster size"]:
        """``sum_n w_nk u(x_n)``: what observations add to the components that they are of."""
        return weights.mT @ self.observation_statistics(observation)

    def log_base_measure(self, observation: Any) -> Float[Tensor, "*batch"] | float:
        """``log h(x)`` of the conjugate likelihood."""
        raise NotImplementedError(f"{self} is not the conjugate prior of a likelihood")

    @property
    def statistic_features(self) -> tuple[int, ...] | None:
        """For every entry of u(x), its feature; None if features are dependent given theta."""
        return None

    @property
    def takes_gaps(self) -> bool:
        """Whether missing features of a row can be integrated out."""
        return self.statistic_features is not None

    def log_marginals(
        self, statistics: Float[Tensor, "cluster size"], features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch cluster"]:
        """``log p(x_o | theta_k)`` of the features that are not NaN, without the base measure.

        Independent features that are missing integrate to 1, and their statistics are zero. A
        family with dependent features overrides it; the gradient in t must be E[u(x)].
        """
        if self.statistic_features is None:
            raise NotImplementedError(f"{self} cannot integrate out missing features")
        filled, seen = without_gaps(features)
        of_statistics = torch.tensor(self.statistic_features, device=features.device)
        known = self.observation_statistics(self.observed(filled))
        known = known.masked_fill(~seen.index_select(-1, of_statistics), 0.0)
        return known @ statistics.mT

    def log_base_measure_of_seen(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch"] | float:
        """``log h(x_o)``; the default is right where a feature that is 0 adds nothing to log h."""
        return self.log_base_measure(self.observed(without_gaps(features)[0]))

    def design(self, features: Float[Tensor, "*batch feature"]) -> Float[Tensor, "*batch column"]:
        """Columns a(x) with ``<fold(t), a(x)> = <t, u(x)>``; the last column is all ones.

        A family whose u(x) has repeated entries overrides both methods to leave the copies out.
        """
        statistics = self.observation_statistics(self.observed(features))
        return torch.nn.functional.pad(statistics, (0, 1), value=1.0)

    def fold(self, statistics: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch column"]:
        """Statistics t in the columns of ``design``."""
        return torch.nn.functional.pad(statistics, (0, 1))

    def sample_observation(self, statistics: Float[Tensor, "*batch size"]) -> Any:
        """One draw of ``x`` given the statistics ``t(theta)`` of a real ``theta``."""
        raise NotImplementedError(f"{self} is not the conjugate prior of a likelihood")

    def summary(
        self, natural_parameters: Float[Tensor, "*batch size"], interval: float
    ) -> PosteriorSummary:
        """Mean, deviation and central interval of every entry of theta."""
        raise NotImplementedError(f"{self} has no summary: define summary(eta, interval)")

    @property
    def unconstrained_size(self) -> int:
        """Length of an unconstrained theta, for point estimates."""
        raise NotImplementedError(f"{self} has no unconstrained coordinates")

    def from_unconstrained(self, unconstrained: Float[Tensor, "*batch free"]) -> Any:
        """A smooth map from all real vectors onto (the interior of) the values theta."""
        raise NotImplementedError(f"{self} has no unconstrained coordinates")

    def to_unconstrained(self, value: Any) -> Float[Tensor, "*batch free"]:
        """A vector that ``from_unconstrained`` maps to the value."""
        raise NotImplementedError(f"{self} has no unconstrained coordinates")

    def log_coordinates(self, statistics: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch"]:
        """``log |d theta / d u|`` at t(theta), for the coordinates u that define the mode.

        Zero if these are theta itself. For shares and rates they are logits and logarithms: a
        Dirichlet with a concentration below 1 has no mode in theta.
        """
        return statistics.new_zeros(statistics.shape[:-1])

    def natural_gradient_mean(
        self,
        natural_parameters: Float[Tensor, "*batch size"],
        mean: Float[Tensor, "*batch size"] | None = None,
    ) -> Float[Tensor, "*batch size"]:
        """``E[t(theta)]`` whose gradient is passed back to ``eta`` unchanged.

        The natural gradient of any function f with respect to eta is its ordinary gradient with
        respect to the mean E[t] (the Fisher information is the Jacobian of eta -> E[t]). With this
        map instead of ``expected_statistics``, ``eta.grad`` is therefore the natural gradient. A
        known ``mean`` is not computed again.
        """
        if mean is None:
            mean = self.expected_statistics(natural_parameters.detach())
        return _IdentityBackwardMean.apply(natural_parameters, mean)

    def variance(
        self,
        natural_parameters: Float[Tensor, "*batch size"],
        direction: Float[Tensor, "*batch size"],
    ) -> Float[Tensor, "*batch"]:
        """``Var <c, t(theta)> = <c, H c>``, with c the ``direction`` and H the Hessian of log Z."""
        with torch.inference_mode(False):  # as the Hessian needs gradients
            # Copies, as tensors made in inference mode take no part in gradients.
            eta = natural_parameters.detach().clone().requires_grad_()
            direction = direction.detach().clone()
            total = self.log_normalizer(eta).sum()
            (mean,) = torch.autograd.grad(total, eta, create_graph=True)
            (slope,) = torch.autograd.grad((mean * direction).sum(), eta)
        return (slope * direction).sum(-1)

    def inner_product(
        self,
        natural_parameters: Float[Tensor, "*#batch size"],
        statistics: Float[Tensor, "*#batch size"],
    ) -> Float[Tensor, "*result"]:
        """``<eta, t>``."""
        return (natural_parameters * statistics).sum(-1)

    def entropy(self, natural_parameters: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch"]:
        """``-E[log q] = log Z(eta) - <eta, E[t]>``."""
        mean = self.expected_statistics(natural_parameters)
        return self.log_normalizer(natural_parameters) - self.inner_product(
            natural_parameters, mean
        )

    def kl_divergence(
        self,
        natural_parameters: Float[Tensor, "*#batch size"],
        other: Float[Tensor, "*#batch size"],
    ) -> Float[Tensor, "*result"]:
        """``KL(q || p) = <eta_q - eta_p, E_q[t]> - log Z(eta_q) + log Z(eta_p)``."""
        mean = self.expected_statistics(natural_parameters)
        cross = ((natural_parameters - other) * mean).sum(-1)
        return cross - self.log_normalizer(natural_parameters) + self.log_normalizer(other)
