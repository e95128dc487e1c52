"""Power likelihoods ``p(x | theta)^w``: densities of rows with a weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.families.family import ExponentialFamily
from pyro_crowdclust.families.heavy_tailed import HeavyTailedNumbers, HeavyTailedRows
from pyro_crowdclust.families.partly_observed import PartlyObserved

DensityOfRows = ExponentialFamily | PartlyObserved | HeavyTailedRows | HeavyTailedNumbers


@dataclass(frozen=True)
class Tempered:
    """``p(x | theta)^w``: a power likelihood (Miller and Dunson 2019), its base measure included.

    It has the methods of a family that densities of observed features need. A simulation draws
    from the density itself.

    Attributes
    ----------
    rows
        The density, of whole rows, of rows with gaps, or with heavy tails.
    weight
        w.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust.families import GammaPoisson
    >>> half, rate = Tempered(GammaPoisson(1), 0.5), torch.tensor([[2.0]])
    >>> count = torch.tensor([[3.0]])
    >>> log_p = half.log_likelihoods(torch.cat([rate.log(), -rate], 1), count)
    >>> (log_p + half.log_base_measure(count)).exp()  # of exp(-2) 2^3 / 3! = .1804
    tensor([[0.4248]])
    """

    rows: DensityOfRows
    weight: float

    @property
    def observation_size(self) -> int:
        """Length of an observation."""
        return self.rows.observation_size

    def observed(self, features: Float[Tensor, "*batch feature"]) -> Tensor:
        """The observations that features are."""
        return self.rows.observed(features)

    def log_likelihoods(
        self, statistics: Float[Tensor, "cluster size"], observation: Float[Tensor, "*batch obs"]
    ) -> Float[Tensor, "*batch cluster"]:
        """``w log p(x | theta_k)`` of every cluster, without the base measure."""
        return self.weight * self.rows.log_likelihoods(statistics, observation)

    def log_base_measure(self, observation: Float[Tensor, "*batch obs"]) -> Any:
        """``w log h(x)``."""
        return self.weight * self.rows.log_base_measure(observation)

    def sample_observation(self, statistics: Float[Tensor, "*batch size"]) -> Tensor:
        """One draw from the density itself."""
        return self.rows.sample_observation(statistics)


def tempered(rows: DensityOfRows, weight: float) -> DensityOfRows | Tempered:
    """``p(x | theta)^w``; with w = 1 the density itself."""
    return rows if weight == 1 else Tempered(rows, weight)
