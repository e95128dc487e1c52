"""Posteriors of workers' rates over several draws, from Betas or Dirichlets given each draw.

    Var[r] = E[Var[r | draw]] + Var[E[r | draw]]

(law of total variance): intervals are those of Betas with these moments, so that they contain the
uncertainty that shows in the differences between draws.
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
    beta_of_moments,
    beta_summary,
)


class DrawnShares(NamedTuple):
    """Means and variances of shares, given each draw.

    Attributes
    ----------
    mean, variance
        Moments of every share given every draw.
    """

    mean: Float[Tensor, "draw ..."]
    variance: Float[Tensor, "draw ..."]

    @classmethod
    def of(cls, natural_parameters: Float[Tensor, "draw ..."]) -> DrawnShares:
        """The shares of Dirichlets, or Betas, with these rows of natural parameters."""
        return cls(*Dirichlet(natural_parameters.shape[-1]).share_moments(natural_parameters))

    def at(self, place: int) -> DrawnShares:
        """The shares at a place of the last axis."""
        return DrawnShares(*(part[..., place] for part in self))

    def reversed(self) -> DrawnShares:
        """The shares in the opposite order."""
        return DrawnShares(*(part.flip(-1) for part in self))

    def summary(self, interval: float) -> PosteriorSummary:
        """The summary of Betas that have the moments over all draws."""
        centre = self.mean.mean(0)
        spread = self.variance.mean(0) + self.mean.var(0, correction=0)
        return beta_summary(*beta_of_moments(centre.numpy(), spread.numpy()), interval)


class LookShares(NamedTuple):
    """Moments of s, the shares of the looks among the pairs of a relation.

    Attributes
    ----------
    mean
        E[s] given every draw.
    square
        E[s s'] given every draw.
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

    def mixed(self, answers: Sequence[DrawnShares]) -> DrawnShares:
        """``sum_y s_y r_y`` for independent r, the shares of a worker's answers for each look.

        Examples
        --------
        >>> import torch
        >>> half = LookShares.of(torch.zeros(1, 1, 2), torch.ones(1, 1))
        >>> sure = DrawnShares(torch.tensor([[[0.1, 0.9]]]), torch.zeros(1, 1, 2))
        >>> half.mixed([sure.reversed(), sure]).mean
        tensor([[[0.5000, 0.5000]]])
        """
        mean, square = torch.zeros_like(answers[0].mean), torch.zeros_like(answers[0].mean)
        for look, shares in enumerate(answers):
            mean += self.mean[:, look, None, None] * shares.mean
            square += self.square[:, look, look, None, None] * shares.variance
            for other, others in enumerate(answers):
                square += self.square[:, look, other, None, None] * shares.mean * others.mean
        return DrawnShares(mean, square - mean**2)


def shares_of_relations(
    answers: Sequence[DrawnShares],
    looks: Float[Tensor, "draw relation look"],
    counts: Float[Tensor, "draw relation look"],
) -> tuple[DrawnShares, DrawnShares]:
    """The shares of workers' answers about pairs that are different, and that are the same.

    If ``s_y`` is the share of the pairs of a relation that look y and ``r_y`` the shares of a
    worker's answers about such pairs, then ``sum_y s_y r_y`` are the shares for the relation.

    Parameters
    ----------
    answers
        r for every look.
    looks
        Natural parameters of the shares s, for pairs that are different and the same in turn, for
        every kind of pair.
    counts
        How many pairs looked like that in the draw.
    """
    # A small number is added, so that a relation without pairs has shares, too.
    pairs = (counts.sum(-1) + 1e-6).unflatten(1, (-1, 2))
    of_kinds = looks.unflatten(1, (-1, 2))
    different, same = (
        LookShares.of(of_kinds[:, :, relation], pairs[:, :, relation]).mixed(answers)
        for relation in range(2)
    )
    return different, same


def weight_of(
    sensitivity: PosteriorSummary, specificity: PosteriorSummary
) -> tuple[Float[np.ndarray, " worker"], Float[np.ndarray, " worker"]]:
    """Mean and deviation of ``log alpha / (1 - alpha) + log beta / (1 - beta)``.

    The rates are taken as independent Betas with the moments in their summaries.

    Examples
    --------
    >>> even = beta_summary(np.array([2.0]), np.array([2.0]), 0.9)
    >>> [part.round(3) for part in weight_of(even, even)]
    [array([0.]), array([1.606])]
    """
    mean, variance = np.zeros_like(sensitivity.mean), np.zeros_like(sensitivity.mean)
    for rate in (sensitivity, specificity):
        right, wrong = beta_of_moments(rate.mean, rate.sd**2)
        mean += scipy.special.digamma(right) - scipy.special.digamma(wrong)
        variance += scipy.special.polygamma(1, right) + scipy.special.polygamma(1, wrong)
    return mean, np.sqrt(variance)
