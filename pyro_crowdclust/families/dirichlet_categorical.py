"""Independent Dirichlets, conjugate prior of items with several categorical columns.

Convention, for columns j with c_j categories, ``size`` = sum_j c_j, columns one after the other:

    eta  = (alpha_jc - 1)_jc
    t(p) = (log p_jc)_jc
    log Z = sum_j (sum_c log Gamma(alpha_jc) - log Gamma(sum_c alpha_jc))
    u(x) = one-hot of every column's code x_j in 0 .. c_j - 1, log h(x) = 0
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust.families.dirichlet import DirichletParameters
from pyro_crowdclust.families.family import ExponentialFamily


@dataclass(frozen=True)
class DirichletCategorical(ExponentialFamily):
    """``prod_j Dir(p_j | alpha_j)``; values are the probability vectors, one after the other.

    Attributes
    ----------
    num_categories
        c_j of every column.

    Examples
    --------
    >>> import torch
    >>> family = DirichletCategorical((2, 3))
    >>> family.observation_statistics(torch.tensor([1.0, 0.0]))
    tensor([0., 1., 1., 0., 0.])
    """

    num_categories: tuple[int, ...]

    @property
    def size(self) -> int:
        """Length of the natural parameters."""
        return sum(self.num_categories)

    @property
    def num_features(self) -> int:
        return len(self.num_categories)

    def _column(self, like: Tensor) -> Int[Tensor, " size"]:
        """The column of every category."""
        counts = torch.tensor(self.num_categories, device=like.device)
        return torch.arange(len(counts), device=like.device).repeat_interleave(counts)

    def _totals(self, flat: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch feature"]:
        """Sum over the categories of every column."""
        zeros = flat.new_zeros(*flat.shape[:-1], self.num_features)
        return zeros.index_add(-1, self._column(flat), flat)

    def natural(self, concentration: Float[Tensor, "*batch size"]) -> Tensor:
        return concentration - 1

    def standard(self, natural_parameters: Tensor) -> DirichletParameters:
        return DirichletParameters(natural_parameters + 1)

    def mean(self, natural_parameters: Tensor) -> Float[Tensor, "*batch size"]:
        """E[p], ``alpha_jc / sum_c alpha_jc``."""
        alpha = natural_parameters + 1
        return alpha / self._totals(alpha)[..., self._column(alpha)]

    def log_normalizer(self, natural_parameters: Tensor) -> Tensor:
        alpha = natural_parameters + 1
        return torch.lgamma(alpha).sum(-1) - torch.lgamma(self._totals(alpha)).sum(-1)

    def expected_statistics(self, natural_parameters: Tensor) -> Tensor:
        alpha = natural_parameters + 1
        totals = torch.digamma(self._totals(alpha))
        return torch.digamma(alpha) - totals[..., self._column(alpha)]

    def sufficient_statistics(self, value: Float[Tensor, "*batch size"]) -> Tensor:
        return value.log()

    def sample(self, natural_parameters: Tensor) -> Float[Tensor, "*batch size"]:
        columns = (natural_parameters + 1).split(self.num_categories, -1)
        draws = [
            torch.distributions.Dirichlet(alpha, validate_args=False).sample() for alpha in columns
        ]
        return torch.cat(draws, -1)

    def in_domain(self, natural_parameters: Tensor) -> Bool[Tensor, "*batch"]:
        return ((natural_parameters > -1) & natural_parameters.isfinite()).all(-1)

    def observation_statistics(self, observation: Float[Tensor, "*batch feature"]) -> Tensor:
        counts = torch.tensor(self.num_categories, device=observation.device)
        position = observation.long() + counts.cumsum(0) - counts
        zeros = observation.new_zeros(*observation.shape[:-1], self.size)
        return zeros.scatter(-1, position, 1.0)

    @property
    def statistic_features(self) -> tuple[int, ...]:
        columns = enumerate(self.num_categories)
        return tuple(column for column, count in columns for _ in range(count))

    def log_base_measure(self, observation: Tensor) -> float:
        return 0.0

    def sample_observation(self, statistics: Tensor) -> Float[Tensor, "*batch feature"]:
        codes = [
            torch.distributions.Categorical(logits=column, validate_args=False).sample()
            for column in statistics.split(self.num_categories, -1)
        ]
        return torch.stack(codes, -1).to(statistics.dtype)

    def log_coordinates(self, statistics: Float[Tensor, "*batch size"]) -> Float[Tensor, "*batch"]:
        return statistics.sum(-1)

    @property
    def unconstrained_size(self) -> int:
        return self.size

    def from_unconstrained(self, unconstrained: Tensor) -> Float[Tensor, "*batch size"]:
        columns = unconstrained.split(self.num_categories, -1)
        return torch.cat([column.softmax(-1) for column in columns], -1)

    def to_unconstrained(self, value: Float[Tensor, "*batch size"]) -> Tensor:
        return value.log()
