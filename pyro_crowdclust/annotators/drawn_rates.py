"""Rates of workers whose Beta or Dirichlet posteriors are known given each of several draws.

The law of total variance, ``Var[r] = E[Var[r | draw]] + Var[E[r | draw]]``: intervals of Betas with
these moments leave open what the draws leave open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.families import PosteriorSummary, beta_summary


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
        counts = natural_parameters + 1
        total = counts.sum(-1, keepdim=True)
        mean = counts / total
        return cls(mean, mean * (1 - mean) / (total + 1))

    def at(self, place: int) -> DrawnShares:
        """The shares at a place of the last axis."""
        return DrawnShares(*(part[..., place] for part in self))

    def pooled(self, counts: Float[Tensor, "draw ..."]) -> DrawnShares:
        """Averages over the second axis of independent shares, weighted by these counts."""
        weights = counts / counts.sum(1, keepdim=True)
        return DrawnShares((weights * self.mean).sum(1), (weights**2 * self.variance).sum(1))

    def mixed(self, right: DrawnShares, other: DrawnShares) -> DrawnShares:
        """``s a + (1 - s) (1 - b)`` of independent shares: s is this one, of every draw.

        Examples
        --------
        >>> import torch
        >>> half = DrawnShares(torch.tensor([0.5]), torch.tensor([0.0]))
        >>> sure = DrawnShares(torch.tensor([[0.9]]), torch.tensor([[0.0]]))
        >>> half.mixed(sure, sure).mean
        tensor([[0.5000]])
        """
        share, spread = (part.unsqueeze(1) for part in self)
        wrong = 1 - other.mean
        mean = share * right.mean + (1 - share) * wrong
        square = (share**2 + spread) * (right.mean**2 + right.variance)
        square = square + 2 * (share - share**2 - spread) * right.mean * wrong
        square = square + ((1 - share) ** 2 + spread) * (wrong**2 + other.variance)
        return DrawnShares(mean, square - mean**2)

    def summary(self, interval: float) -> PosteriorSummary:
        """Of Betas with the moments over all draws."""
        centre = self.mean.mean(0)
        spread = self.variance.mean(0) + self.mean.var(0, correction=0)
        strength: Float[np.ndarray, "*shape"] = (centre * (1 - centre) / spread - 1).numpy()
        mean = centre.numpy()
        return beta_summary(strength * mean, strength * (1 - mean), interval)


def summarize_draws(
    given: Mapping[str, Float[Tensor, "draw worker size"]],
    looks: Float[Tensor, "draw relation look"],
    counts: Float[Tensor, "draw relation look"],
    interval: float,
) -> dict[str, PosteriorSummary]:
    """Rates of workers who answer by what a pair looks like.

    Those of two coins are of pairs that are the same or different, whatever these look like: with s
    the share of such pairs that look as they are, sensitivity alpha and specificity beta of looks,
    ``s alpha + (1 - s) (1 - beta)``.

    Parameters
    ----------
    given
        Natural parameters of the workers' sites given every draw.
    looks
        Those of how pairs look that are different and the same, in turn, of every kind of pair.
    counts
        How many pairs looked like that in the draw.
    interval
        Probability of the central intervals.
    """
    rates = {name: DrawnShares.of(eta) for name, eta in given.items()}
    if set(rates) == {"sensitivity", "specificity"}:
        # A little, so that a relation without pairs has shares as well.
        pairs = (counts.sum(-1, keepdim=True) + 1e-6).unflatten(1, (-1, 2))
        share = DrawnShares.of(looks.unflatten(1, (-1, 2))).pooled(pairs)
        right, rejected = (rate.at(0) for rate in rates.values())
        rates = {
            "sensitivity": share.at(1).at(1).mixed(right, rejected),
            "specificity": share.at(0).at(0).mixed(rejected, right),
        }
    return {name: shares.summary(interval) for name, shares in rates.items()}
