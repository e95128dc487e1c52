"""Calibration curves of judges, who give log odds, on one trait of the items.

In EM q(t_i) is exact; the curves (b_j, h_j), the noise v_j and their common parameters are at their
modes. The cut c is likely where judges' odds are even, h_j / b_j, with judges weighted by the
information in their answers; where the share of items above it is as expected; and where the trait
is most informative about the class, R(c), as for binary answers:

    w(c)  propto  N(c | 0, 1) prod_j N(c | h_j / b_j, 1)^(u_j / 5)
                  [ s(c)^r (1 - s(c))^(1 - r) ]^n R(c)^m

with u_j = L b_j^2 v_j^-1 / sum_l b_l^2 v_l^-1, m = 3 L, L = min(M, 20), and n the number of items
that the expected share r counts as.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.special import expit

from pyro_crowdclust.annotators.cuts import log_weight_of_items
from pyro_crowdclust.annotators.trait_grid import (
    ABOVE,
    CUTS,
    MOST_ANNOTATORS,
    PER_ANNOTATOR,
    POINTS,
    side,
)

# The grid of the trait and the positions of the classes on it, as for binary answers.
_POINTS, _CUTS = POINTS.numpy(), CUTS.numpy()
_DESIGN = np.stack([_POINTS, -np.ones_like(_POINTS)], 1)
_SIDES = {sign: side(sign).numpy() for sign in (-1, 1)}
# Prior of the common parameters of the curves, in units of the deviation of a judge's log odds,
# with the weight of _PRIOR_JUDGES judges.
_MEAN, _COVARIANCE, _VARIANCE = np.array([0.3, 0.0]), np.diag([0.02, 0.1]), 0.5
_PRIOR_JUDGES = 2.0
# Prior mean square of log odds, and the number of answers that it counts.
_SPREAD_OF_ODDS, _FEW_ANSWERS = 2.0**2, 5.0
_ROUNDS, _TOLERANCE = 500, 1e-6


@dataclass(eq=False)
class JudgeCurves:
    """Modes of the judges' curves and of their common parameters.

    Attributes
    ----------
    line
        (b_j, h_j).
    variance
        v_j.
    mean, covariance
        m and S of the curves.
    common_variance
        v_0.
    """

    line: Float[np.ndarray, "judge coefficient"]
    variance: Float[np.ndarray, " judge"]
    mean: Float[np.ndarray, " coefficient"]
    covariance: Float[np.ndarray, "coefficient coefficient"]
    common_variance: float

    @classmethod
    def of_the_prior(cls, num_judges: int) -> JudgeCurves:
        """Curves of judges about whom nothing is known."""
        line, variance = np.tile(_MEAN, (num_judges, 1)), np.full(num_judges, _VARIANCE)
        return cls(line, variance, _MEAN, _COVARIANCE, _VARIANCE)

    @property
    def information(self) -> Float[np.ndarray, " judge"]:
        """``b_j^2 / v_j``: the information about the trait in an answer of each judge."""
        return self.line[:, 0] ** 2 / self.variance

    def learned(
        self,
        answers: Float[np.ndarray, "item judge"],
        given: Bool[np.ndarray, "item judge"],
        trait: Float[np.ndarray, "item point"],
    ) -> JudgeCurves:
        """A round of modes: each judge's ridge regression and noise, then what all have in common.

        Parameters
        ----------
        answers
            Log odds in units of each judge's deviation, 0 where there is none.
        given
            Where there is one.
        trait
            q(t_i).
        """
        count = given.T @ trait
        squares = np.einsum("jg,gf,gh->jfh", count, _DESIGN, _DESIGN)
        products = (answers.T @ trait) @ _DESIGN
        precision = np.linalg.inv(self.covariance)
        line = np.linalg.solve(
            squares / self.variance[:, None, None] + precision,
            (products / self.variance[:, None] + precision @ self.mean)[..., None],
        )[..., 0]
        residual = (answers**2).sum(0) - 2 * (line * products).sum(1)
        residual = residual + np.einsum("jf,jfh,jh->j", line, squares, line)
        # The prior of the noise counts as many answers as there are items: otherwise the trait
        # could become the answers of judges who copy each other.
        weight = max(10.0, float(len(answers)))
        variance = (weight * self.common_variance + residual) / (weight + given.sum(0))
        judges, prior = len(line), _PRIOR_JUDGES
        mean = (line.sum(0) + prior * _MEAN) / (judges + prior)
        away = line - mean
        covariance = (away.T @ away + prior * _COVARIANCE) / (judges + prior)
        common = float(variance.sum() + prior * _VARIANCE) / (judges + prior)
        return JudgeCurves(line, variance, mean, covariance, common)

    def posterior(
        self,
        answers: Float[np.ndarray, "item judge"],
        given: Bool[np.ndarray, "item judge"],
        rho: Float[np.ndarray, " point"],
    ) -> Float[np.ndarray, "item point"]:
        """``q(t_i)  propto  rho_t prod_j N(l_ij | b_j t - h_j, v_j)``."""
        at_points = self.line @ _DESIGN.T
        weighted = at_points / self.variance[:, None]
        logits = answers @ weighted - given @ (at_points * weighted) / 2 + np.log(rho)
        weight = np.exp(logits - logits.max(1, keepdims=True))
        return weight / weight.sum(1, keepdims=True)

    def cut(
        self, rho: Float[np.ndarray, " point"], share: float, share_items: float
    ) -> Float[np.ndarray, " cut"]:
        """w: the probabilities of the possible cuts."""
        slope, shift = self.line.T
        weight = self.information
        weight = min(len(weight), MOST_ANNOTATORS) * weight / weight.sum()
        even = shift / np.where(np.abs(slope) > 1e-3, slope, np.inf)
        by_judges = -(weight * (_CUTS[:, None] - even) ** 2).sum(1) / 2
        of_share = share, share_items
        by_items = log_weight_of_items(torch.from_numpy(rho), ABOVE, *of_share, len(slope)).numpy()
        log_w = PER_ANNOTATOR * by_judges - _CUTS**2 / 2 + by_items
        w = np.exp(log_w - log_w.max())
        return w / w.sum()


def fit_curves(
    answers: Float[np.ndarray, "item judge"], given: Bool[np.ndarray, "item judge"], share: float
) -> tuple[JudgeCurves, Float[np.ndarray, "item point"], Float[np.ndarray, " point"]]:
    """EM: the curves, q(t_i), and rho of the trait.

    Parameters
    ----------
    answers, given
        As for ``JudgeCurves.learned``.
    share
        The expected share of class 1.
    """
    strength = max(10.0, len(answers) / 10)
    centre = (1 - share) * _SIDES[-1] + share * _SIDES[1]
    trait = first_trait(answers, given)
    curves = JudgeCurves.of_the_prior(answers.shape[1])
    for _ in range(_ROUNDS):
        rho = strength * centre + trait.sum(0)
        rho /= rho.sum()
        curves = curves.learned(answers, given, trait)
        new = curves.posterior(answers, given, rho)
        change = np.abs(new - trait).max()
        trait = new
        if change < _TOLERANCE:
            break
    return curves, trait, rho


def first_trait(
    answers: Float[np.ndarray, "item judge"], given: Bool[np.ndarray, "item judge"]
) -> Float[np.ndarray, "item point"]:
    """Start of q(t_i): a mixture of the positions of the classes, by the item's mean log odds."""
    upper = expit(answers.sum(1) / given.sum(1))[:, None]
    return upper * _SIDES[1] + (1 - upper) * _SIDES[-1]


def deviations_of_judges(
    answers: Float[np.ndarray, "item judge"], given: Bool[np.ndarray, "item judge"]
) -> Float[np.ndarray, " judge"]:
    """Standard deviation of every judge's log odds, shrunk to that of all judges."""
    count = given.sum(0)
    squares = (given * (answers - answers.sum(0) / count) ** 2).sum(0)
    # A priori, judges give about .9 and .1 (_SPREAD_OF_ODDS). The 0.01 keeps the deviation of
    # judges who always give the same probability above zero.
    common = (squares.sum() + _FEW_ANSWERS * _SPREAD_OF_ODDS) / (count.sum() + _FEW_ANSWERS) + 0.01
    return np.sqrt((squares + _FEW_ANSWERS * common) / (count + _FEW_ANSWERS))
