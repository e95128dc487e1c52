"""``p(x_o | theta)``: a family for rows with gaps (NaN), made from the family of whole rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.families.family import ExponentialFamily


@dataclass(frozen=True)
class PartlyObserved:
    """A family of rows with gaps: its observations are rows of features, NaN where missing.

    It has the methods of a family that densities of observed features need.

    Attributes
    ----------
    family
        The family of whole rows; one that ``takes_gaps``.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust.families import BetaBernoulli
    >>> rows = torch.tensor([[1.0, torch.nan]])
    >>> log_rates = torch.tensor([[0.5, 0.9, 0.5, 0.1]]).log()      # p = (0.5, 0.9)
    >>> PartlyObserved(BetaBernoulli(2)).log_likelihoods(log_rates, rows).exp()
    tensor([[0.5000]])
    """

    family: ExponentialFamily

    @property
    def observation_size(self) -> int:
        """Length of a row."""
        return self.family.num_features

    def observed(self, features: Float[Tensor, "*batch feature"]) -> Tensor:
        """The rows themselves."""
        return features

    def log_likelihoods(
        self,
        statistics: Float[Tensor, "cluster size"],
        observation: Float[Tensor, "*batch feature"],
    ) -> Float[Tensor, "*batch cluster"]:
        """``log p(x_o | theta_k)`` of every cluster, without the base measure."""
        return self.family.log_marginals(statistics, observation)

    def log_base_measure(self, observation: Float[Tensor, "*batch feature"]) -> Any:
        """``log h(x_o)``."""
        return self.family.log_base_measure_of_seen(observation)

    def sample_observation(self, statistics: Float[Tensor, "*batch size"]) -> Tensor:
        """One draw of a whole row."""
        return self.family.features(self.family.sample_observation(statistics))
