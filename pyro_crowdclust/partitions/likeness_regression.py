"""Logistic regression of what a pair looks like on the likeness of its two items."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.files.parts import described

# Prior precision of a coefficient of a standardized number. The intercept has next to none.
_RIDGE, _FREE = 1.0, 1e-6
_NEWTON_STEPS = 50
# Longer steps in the log odds leave the range in which the curvature holds.
_MAX_STEP = 2.0
# Smallest share of "same" at which Newton's steps begin.
_MIN_SHARE = 1e-6
# Pseudo-pairs of each kind in the share of "same".
_PSEUDO_PAIRS = 1.0


def logistic_regression(
    x: Float[Tensor, "pair number"], target: Float[Tensor, " pair"]
) -> Float[Tensor, " coefficient"]:
    """Ridge logistic regression of probabilities on standardized numbers, by Newton's method.

    The intercept comes last, and is free.

    Examples
    --------
    >>> x = torch.tensor([[-1.0], [1.0]] * 50, dtype=torch.float64)
    >>> beta = logistic_regression(x, torch.tensor([0.2, 0.8] * 50, dtype=torch.float64))
    >>> beta.round(decimals=1).tolist()
    [1.3, 0.0]
    """
    x = torch.cat([x, torch.ones_like(x[:, :1])], 1)
    precision = torch.full((x.shape[1],), _RIDGE, dtype=torch.float64)
    precision[-1] = _FREE
    beta = torch.zeros_like(precision)
    beta[-1] = target.mean().clamp(_MIN_SHARE, 1 - _MIN_SHARE).logit()
    for _ in range(_NEWTON_STEPS):
        p = (x @ beta).sigmoid()
        gradient = x.mT @ (target - p) - precision * beta
        curvature = x.mT @ ((p * (1 - p)).unsqueeze(1) * x) + torch.diag(precision)
        step = torch.linalg.solve(curvature, gradient)
        beta += step * min(1.0, _MAX_STEP / max(float((x @ step).abs().max()), 1e-12))
        if float(step.abs().max()) < 1e-8:
            break
    return beta


@described
class LikenessRegression(nn.Module):
    """``g(x) = log p(x | same) / p(x | different)`` for the numbers x of a pair that looks so.

        log p(same | x) / p(different | x) = x^T beta + beta_0
        g(x) = x^T beta + beta_0 - log r / (1 - r) ,      r the share of "same"

    by Bayes' theorem: the ratio of the densities is the logistic regression of "same" on x, without
    the log odds before x is known. beta is learned from pairs that people were asked about, given
    what these look like, with a prior N(0, 1) for every coefficient of a standardized number. Until
    then g is 0. If pairs were chosen for questions by their x, this does not change beta; g is for
    pairs that were chosen in the same way.

    Parameters
    ----------
    num_numbers
        How many numbers describe a pair.

    Examples
    --------
    >>> regression = LikenessRegression(1)
    >>> x = torch.tensor([[0.0], [1.0]] * 50, dtype=torch.float64)
    >>> regression.learn(x, torch.tensor([0.2, 0.8] * 50, dtype=torch.float64))
    >>> regression.log_ratio(x[:2]).round(decimals=1).tolist()
    [-1.3, 1.3]
    """

    coefficients: Tensor
    intercept: Tensor
    location: Tensor
    scale: Tensor

    def __init__(self, num_numbers: int) -> None:
        super().__init__()
        self.num_numbers = num_numbers
        zeros = torch.zeros(num_numbers, dtype=torch.float64)
        self.register_buffer("coefficients", zeros)
        self.register_buffer("intercept", torch.tensor(0.0, dtype=torch.float64))
        self.register_buffer("location", zeros.clone())
        self.register_buffer("scale", torch.ones_like(zeros))

    def log_ratio(self, values: Float[Tensor, "pair number"]) -> Float[Tensor, " pair"]:
        """g for pairs with these numbers."""
        return (values - self.location) / self.scale @ self.coefficients + self.intercept

    @torch.no_grad()
    def learn(self, values: Float[Tensor, "pair number"], same: Float[Tensor, " pair"]) -> None:
        """Learn beta from pairs that look the same with these probabilities."""
        if not len(values):
            return
        self.location.copy_(values.mean(0))
        deviation = values.std(0, correction=0)
        self.scale.copy_(torch.where(deviation > 0, deviation, 1.0))
        beta = logistic_regression((values - self.location) / self.scale, same)
        share = (same.sum() + _PSEUDO_PAIRS) / (len(same) + 2 * _PSEUDO_PAIRS)
        self.coefficients.copy_(beta[:-1])
        self.intercept.copy_(beta[-1] - share.logit())
