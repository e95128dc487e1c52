"""Rates of workers whose Beta or Dirichlet posteriors are known given each of several draws.

The law of total variance, ``Var[r] = E[Var[r | draw]] + Var[E[r | draw]]``: intervals of Betas with
these moments leave open what the draws leave open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.special
import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.families import (
    Dirichlet,
    PosteriorSummary,
    beta_concentration,
    beta_summary,
)


class DrawnShares(NamedTuple):
    """Shares given each draw.

    Attributes
    ----------
    mean, variance
        Moments of every share given every draw.
    """

    mean: Float[Tensor, "draw ..."]
    variance: Float[Tensor, "draw ..."]

    @classmethod
    def of(cls, natural_parameters: Float[Tensor, "draw ..."]) -> DrawnShares:
        """Those of Dirichlets, or Betas, with one row of natural parameters each."""
        return cls(*Dirichlet(natural_parameters.shape[-1]).share_moments(natural_parameters))

    def at(self, place: int) -> DrawnShares:
        """The shares at a place of the last axis."""
        return DrawnShares(*(part[..., place] for part in self))

    def reversed(self) -> DrawnShares:
        """The shares in the opposite order."""
        return DrawnShares(*(part.flip(-1) for part in self))

    def summary(self, interval: float) -> PosteriorSummary:
        """Of Betas with the moments over all draws."""
        centre = self.mean.mean(0)
        spread = self.variance.mean(0) + self.mean.var(0, correction=0)
        mean = centre.numpy()
        strength = beta_concentration(mean, spread.numpy())
        return beta_summary(strength * mean, strength * (1 - mean), interval)


class LookShares(NamedTuple):
    """How many pairs look like what, of a relation that there is of several kinds.

    Attributes
    ----------
    mean
        E[s] given every draw.
    square
        E[s s'].
    """

    mean: Float[Tensor, "draw look"]
    square: Float[Tensor, "draw look look"]

    @classmethod
    def of(
        cls,
        natural_parameters: Float[Tensor, "draw kind look"],
        counts: Float[Tensor, "draw kind"],
    ) -> LookShares:
        """Averages of independent Dirichlets, one for each kind, weighted by these counts."""
        alpha = natural_parameters + 1
        total = alpha.sum(-1, keepdim=True)
        mean = alpha / total
        outer = mean.unsqueeze(-1) * mean.unsqueeze(-2)
        covariance = (mean.diag_embed() - outer) / (total + 1).unsqueeze(-1)
        weights = (counts / counts.sum(1, keepdim=True)).unsqueeze(-1)
        average = (weights * mean).sum(1)
        spread = (weights.square().unsqueeze(-1) * covariance).sum(1)
        return cls(average, average.unsqueeze(-1) * average.unsqueeze(-2) + spread)

    def mixed(self, said: Sequence[DrawnShares]) -> DrawnShares:
        """``sum_y s_y r_y`` of independent r, what a worker says of pairs of every look.

        Examples
        --------
        >>> import torch
        >>> half = LookShares.of(torch.zeros(1, 1, 2), torch.ones(1, 1))
        >>> sure = DrawnShares(torch.tensor([[[0.1, 0.9]]]), torch.zeros(1, 1, 2))
        >>> half.mixed([sure.reversed(), sure]).mean
        tensor([[[0.5000, 0.5000]]])
        """
        mean, square = torch.zeros_like(said[0].mean), torch.zeros_like(said[0].mean)
        for look, shares in enumerate(said):
            mean += self.mean[:, look, None, None] * shares.mean
            square += self.square[:, look, look, None, None] * shares.variance
            for other, others in enumerate(said):
                square += self.square[:, look, other, None, None] * shares.mean * others.mean
        return DrawnShares(mean, square - mean**2)


def of_relations(
    said: Sequence[DrawnShares],
    looks: Float[Tensor, "draw relation look"],
    counts: Float[Tensor, "draw relation look"],
) -> tuple[DrawnShares, DrawnShares]:
    """What workers say of pairs that are different, and of those that are the same.

    With ``s_y`` the share of pairs of a relation that look y and ``r_y`` what a worker says of such
    pairs, it is ``sum_y s_y r_y`` that is said of the relation, whatever its pairs look like.

    Parameters
    ----------
    said
        r of every look.
    looks
        Natural parameters of how pairs look that are different and the same, in turn, of every kind
        of pair.
    counts
        How many pairs looked like that in the draw.
    """
    # A little, so that a relation without pairs has shares as well.
    pairs = (counts.sum(-1) + 1e-6).unflatten(1, (-1, 2))
    of_kinds = looks.unflatten(1, (-1, 2))
    different, same = (
        LookShares.of(of_kinds[:, :, relation], pairs[:, :, relation]).mixed(said)
        for relation in range(2)
    )
    return different, same


def weight_of(
    sensitivity: PosteriorSummary, specificity: PosteriorSummary
) -> tuple[Float[np.ndarray, " worker"], Float[np.ndarray, " worker"]]:
    """Mean and deviation of ``log alpha / (1 - alpha) + log beta / (1 - beta)``.

    Of independent Betas with the moments of these rates.

    Examples
    --------
    >>> even = beta_summary(np.array([2.0]), np.array([2.0]), 0.9)
    >>> [part.round(3) for part in weight_of(even, even)]
    [array([0.]), array([1.606])]
    """
    mean, variance = np.zeros_like(sensitivity.mean), np.zeros_like(sensitivity.mean)
    for rate in (sensitivity, specificity):
        strength = beta_concentration(rate.mean, rate.sd**2)
        right, wrong = strength * rate.mean, strength * (1 - rate.mean)
        mean += scipy.special.digamma(right) - scipy.special.digamma(wrong)
        variance += scipy.special.polygamma(1, right) + scipy.special.polygamma(1, wrong)
    return mean, np.sqrt(variance)
