"""The grid of a trait, where two classes begin on it, and where it may be cut between them."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

# A step is small against the slope of an annotator, the ends are certain.
POINTS = torch.linspace(-6.0, 6.0, 25, dtype=torch.float64)
CUTS = torch.linspace(-3.0, 3.0, 61, dtype=torch.float64)
# How much of the prior's say about the cut an annotator takes over.
PER_ANNOTATOR = 0.2
# Classes begin at Gaussians of this mean, up and down, and this deviation.
_CENTRE, _SPREAD = 2.5, 1.5


def side(sign: int) -> Float[Tensor, " point"]:
    """Where items of class 1 lie (sign 1) or of class 0 (-1), before anything is known of them."""
    return (-((POINTS - sign * _CENTRE) ** 2) / (2 * _SPREAD**2)).softmax(0)


def above(sharpness: float) -> Float[Tensor, "point cut"]:
    """``sigma(kappa (t - c))``, the probability of class 1 at t if the cut is at c."""
    return torch.sigmoid(sharpness * (POINTS.unsqueeze(-1) - CUTS))
