"""Point estimates of global sites, for maximum likelihood and maximum a posteriori."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.distributions.at_mean import Point
from pyro_crowdclust.distributions.priors import ConjugatePrior
from pyro_crowdclust.families import PosteriorSummary


class PointEstimate(nn.Module):
    """A point estimate of theta, learned by ordinary gradients in unconstrained coordinates.

    Its site carries t(theta). The guide's log-density is the prior's own at the point, so that it
    cancels the prior in the ELBO (maximum likelihood), or ``-log |d theta / d u|``, which leaves
    the prior's density of the coordinates u (maximum a posteriori). For shares and rates u are the
    logits and logarithms, where a Dirichlet posterior has its mode at ``alpha / sum alpha`` (MacKay
    1998); in theta itself it has no mode if a concentration is below 1.

    Parameters
    ----------
    prior
        The site's prior. The estimate is at unconstrained zero until ``set_value``.
    maximum_a_posteriori
        Keep the prior in the objective.
    """

    def __init__(self, prior: ConjugatePrior, maximum_a_posteriori: bool = False) -> None:
        super().__init__()
        self.family = prior.family
        self.prior = prior
        self.maximum_a_posteriori = maximum_a_posteriori
        shape = () if prior.plate_size is None else (prior.plate_size,)
        size = self.family.unconstrained_size
        self.unconstrained = nn.Parameter(torch.zeros(*shape, size, dtype=torch.float64))

    def value(self) -> Any:
        """theta, in the form that the family's ``sample`` returns."""
        return self.family.from_unconstrained(self.unconstrained)

    def statistics(self) -> Float[Tensor, "*plate size"]:
        """t(theta)."""
        return self.family.sufficient_statistics(self.value())

    def distribution(self) -> Point:
        """The statistic-valued Pyro distribution of the guide's site."""
        theta = self.value()
        statistics = self.family.sufficient_statistics(theta)
        if self.maximum_a_posteriori:
            return Point(statistics, -self.family.log_coordinates(statistics), theta)
        return Point(statistics, self.prior.distribution().log_prob(statistics), theta)

    @torch.no_grad()
    def mean(self) -> Float[Tensor, "*plate size"]:
        """E_q[t(theta)], which is t(theta)."""
        return self.statistics()

    @torch.no_grad()
    def summary(self, interval: float) -> PosteriorSummary:
        """theta; deviations and intervals are NaN."""
        value = self.value().numpy(force=True)
        unknown = np.full_like(value, np.nan)
        return PosteriorSummary(value, unknown, unknown, unknown)

    def variance(self, direction: Float[Tensor, "*plate size"]) -> Float[Tensor, "*plate"]:
        """The variance of a direction of t(theta), which is unknown."""
        return direction.new_full(direction.shape[:-1], torch.nan)

    @torch.no_grad()
    def set_value(self, value: Any) -> None:
        """Move the estimate to a given theta."""
        self.unconstrained.copy_(self.family.to_unconstrained(value))
