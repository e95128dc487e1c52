"""The grid of a trait: its points, where the two classes begin on it, and the possible cuts."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

# Steps are small for the slopes of annotators, and at the ends answers are certain.
POINTS = torch.linspace(-6.0, 6.0, 25, dtype=torch.float64)
CUTS = torch.linspace(-3.0, 3.0, 61, dtype=torch.float64)
# sigma(kappa (t - c)), the probability of class 1 at t if the cut is at c. That kappa cannot be
# learned from answers; it is twice the slope of a typical annotator.
ABOVE = torch.sigmoid(2.0 * (POINTS.unsqueeze(-1) - CUTS))
# Weight of an annotator's information about the cut, relative to the prior, and how many annotators
# count. Where they err together, more of them know no more about the cut.
PER_ANNOTATOR, MOST_ANNOTATORS = 0.2, 20
# Classes begin at Gaussians of this mean, up and down, and this deviation.
_CENTRE, _SPREAD = 2.5, 1.5


def side(sign: int) -> Float[Tensor, " point"]:
    """The prior of the trait for items of class 1 (``sign`` 1) or of class 0 (-1)."""
    return (-((POINTS - sign * _CENTRE) ** 2) / (2 * _SPREAD**2)).softmax(0)
