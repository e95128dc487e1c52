"""Hurdle model: normal numbers with an atom, one value that has a probability mass.

For every feature j an observation has a number x_j and an indicator b_j in {0, 1} of being at the
atom, where x_j is 0. With theta = (mu, lambda, p), after Cragg 1971,

    p(x_j, b_j | theta) = p_j^b_j ((1 - p_j) N(x_j | mu_j, 1 / lambda_j))^(1 - b_j)

Convention, ``size`` = 6 d: eta and t of ``NormalGamma(d)``, then of ``BetaBernoulli(d)``;

    u(x, b) = ((1 - b) u_NG(x), u_BB(b)),   log h = -sum_j (1 - b_j) log(2 pi) / 2
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.families.beta_bernoulli import BetaBernoulli
from pyro_crowdclust.families.family import ExponentialFamily
from pyro_crowdclust.families.normal_gamma import NormalGamma
from pyro_crowdclust.families.product import ProductFamily


@dataclass(frozen=True)
class HurdleNormal(ProductFamily):
    """``prod_j NG(mu_j, lambda_j) Beta(p_j)``, prior of numbers that may be at an atom.

    Attributes
    ----------
    families
        ``NormalGamma(d)`` and ``BetaBernoulli(d)``.

    Examples
    --------
    >>> family = HurdleNormal((NormalGamma(1), BetaBernoulli(1)))
    >>> family.observation_statistics(torch.tensor([[3.0, 0.0], [0.0, 1.0]]))
    tensor([[3., 9., 1., 1., 0., 1.],
            [0., 0., 0., 0., 1., 0.]])
    """

    families: tuple[NormalGamma, BetaBernoulli]

    def observation_statistics(self, observation: Float[Tensor, "*batch observation"]) -> Tensor:
        number, at_atom = observation.chunk(2, -1)
        normal, coin = self.families
        of_number = normal.observation_statistics(number) * torch.cat([1 - at_atom] * 4, -1)
        return torch.cat([of_number, coin.observation_statistics(at_atom)], -1)

    @property
    def statistic_features(self) -> tuple[int, ...]:
        normal, coin = self.families
        of_coins = (normal.num_features + feature for feature in coin.statistic_features)
        return (*normal.statistic_features, *of_coins)

    @property
    def takes_gaps(self) -> bool:
        return True

    # Number and indicator are dependent: the factors' own likelihoods and marginals would count
    # numbers at the atom.
    log_likelihoods = ExponentialFamily.log_likelihoods
    weighted_statistics = ExponentialFamily.weighted_statistics
    log_marginals = ExponentialFamily.log_marginals

    def log_base_measure(self, observation: Tensor) -> Float[Tensor, "*batch"]:
        at_atom = observation.chunk(2, -1)[1]
        return (1 - at_atom).sum(-1) * (-math.log(2 * math.pi) / 2)

    def log_base_measure_of_seen(self, features: Tensor) -> Float[Tensor, "*batch"]:
        # A missing number, like one at the atom, contributes nothing.
        return self.log_base_measure(features.nan_to_num(1.0))

    def sample_observation(self, statistics: Tensor) -> Float[Tensor, "*batch observation"]:
        drawn = super().sample_observation(statistics)
        number, at_atom = drawn.chunk(2, -1)
        return torch.cat([number * (1 - at_atom), at_atom], -1)
