"""Products of families: one prior for rows whose columns have different types.

Convention: eta, t and u of the factors, one after the other; log Z and log h are sums. A value of
theta is a tuple of the factors' values. An observation is the concatenation of the factors'
observations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust.families.family import ExponentialFamily


@dataclass(frozen=True)
class ProductFamily(ExponentialFamily):
    """``prod_f p_f(theta_f | eta_f)``, with likelihood ``prod_f p_f(x_f | theta_f)``.

    Attributes
    ----------
    families
        The factors, in the order of their columns.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust.families import BetaBernoulli, GammaPoisson
    >>> family = ProductFamily((BetaBernoulli(1), GammaPoisson(2)))
    >>> family.size, family.num_features
    (6, 3)
    >>> family.observation_statistics(torch.tensor([1.0, 7.0, 0.0]))
    tensor([1., 0., 7., 0., 1., 1.])
    """

    families: tuple[ExponentialFamily, ...]

    @property
    def size(self) -> int:
        """Length of the natural parameters."""
        return sum(family.size for family in self.families)

    @property
    def num_features(self) -> int:
        return sum(family.num_features for family in self.families)

    @property
    def observation_size(self) -> int:
        return sum(family.observation_size for family in self.families)

    def observed(self, features: Float[Tensor, "*batch feature"]) -> Tensor:
        parts = self._split(features, "num_features")
        return torch.cat([family.observed(part) for family, part in parts], -1)

    def features(self, observation: Float[Tensor, "*batch observation"]) -> Tensor:
        parts = self._split(observation, "observation_size")
        return torch.cat([family.features(part) for family, part in parts], -1)

    def _split(self, flat: Tensor, size: str = "size") -> list[tuple[ExponentialFamily, Tensor]]:
        """Every factor with its part of a flat vector."""
        sizes = [getattr(family, size) for family in self.families]
        return list(zip(self.families, flat.split(sizes, -1), strict=True))

    def split(self, flat: Float[Tensor, "*batch size"]) -> tuple[Tensor, ...]:
        """Natural parameters or statistics of every factor."""
        return tuple(part for _, part in self._split(flat))

    def natural(self, *standard: tuple) -> Tensor:
        pairs = zip(self.families, standard, strict=True)
        return torch.cat([family.natural(*part) for family, part in pairs], -1)

    def standard(self, natural_parameters: Tensor) -> tuple:
        return tuple(family.standard(eta) for family, eta in self._split(natural_parameters))

    def log_normalizer(self, natural_parameters: Tensor) -> Tensor:
        parts = self._split(natural_parameters)
        return torch.stack([family.log_normalizer(eta) for family, eta in parts]).sum(0)

    def expected_statistics(self, natural_parameters: Tensor) -> Tensor:
        parts = self._split(natural_parameters)
        return torch.cat([family.expected_statistics(eta) for family, eta in parts], -1)

    def sufficient_statistics(self, value: tuple) -> Tensor:
        pairs = zip(self.families, value, strict=True)
        return torch.cat([family.sufficient_statistics(part) for family, part in pairs], -1)

    def sample(self, natural_parameters: Tensor) -> tuple[Any, ...]:
        return tuple(family.sample(eta) for family, eta in self._split(natural_parameters))

    def in_domain(self, natural_parameters: Tensor) -> Bool[Tensor, "*batch"]:
        parts = self._split(natural_parameters)
        return torch.stack([family.in_domain(eta) for family, eta in parts]).all(0)

    def observation_statistics(self, observation: Float[Tensor, "*batch observation"]) -> Tensor:
        parts = self._split(observation, "observation_size")
        return torch.cat([family.observation_statistics(part) for family, part in parts], -1)

    def log_likelihoods(
        self, statistics: Float[Tensor, "cluster size"], observation: Float[Tensor, "*batch obs"]
    ) -> Float[Tensor, "*batch cluster"]:
        parts = self._split(observation, "observation_size")
        pairs = zip(parts, self.split(statistics), strict=True)
        scores = [family.log_likelihoods(own, part) for (family, part), own in pairs]
        return torch.stack(scores).sum(0)

    def weighted_statistics(
        self, observation: Float[Tensor, "row obs"], weights: Float[Tensor, "row cluster"]
    ) -> Float[Tensor, "cluster size"]:
        parts = self._split(observation, "observation_size")
        sums = [family.weighted_statistics(part, weights) for family, part in parts]
        return torch.cat(sums, -1)

    @property
    def takes_gaps(self) -> bool:
        return all(family.takes_gaps for family in self.families)

    def log_marginals(self, statistics: Tensor, features: Tensor) -> Tensor:
        parts = self._split(features, "num_features")
        pairs = zip(parts, self.split(statistics), strict=True)
        scores = [family.log_marginals(own, part) for (family, part), own in pairs]
        return torch.stack(scores).sum(0)

    def log_base_measure_of_seen(self, features: Tensor) -> Float[Tensor, "*batch"] | float:
        parts = self._split(features, "num_features")
        return sum(family.log_base_measure_of_seen(part) for family, part in parts)

    def log_base_measure(self, observation: Tensor) -> Float[Tensor, "*batch"] | float:
        parts = self._split(observation, "observation_size")
        return sum(family.log_base_measure(part) for family, part in parts)

    def sample_observation(self, statistics: Tensor) -> Float[Tensor, "*batch observation"]:
        parts = self._split(statistics)
        return torch.cat([family.sample_observation(part) for family, part in parts], -1)

    def log_coordinates(self, statistics: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch"]:
        parts = self._split(statistics)
        return torch.stack([family.log_coordinates(own) for family, own in parts]).sum(0)

    @property
    def unconstrained_size(self) -> int:
        return sum(family.unconstrained_size for family in self.families)

    def from_unconstrained(self, unconstrained: Tensor) -> tuple[Any, ...]:
        parts = self._split(unconstrained, "unconstrained_size")
        return tuple(family.from_unconstrained(part) for family, part in parts)

    def to_unconstrained(self, value: tuple) -> Tensor:
        pairs = zip(self.families, value, strict=True)
        return torch.cat([family.to_unconstrained(part) for family, part in pairs], -1)
