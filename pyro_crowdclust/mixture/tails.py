"""Heavy-tailed Gaussian components: the check of ``tails``, and coordinates robust to outliers."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

_CENTRAL = (1 / 6, 1 / 2, 5 / 6)


def check_tails(tails: float | None) -> None:
    """Raise a ``ValueError`` unless ``tails`` is None or a number of degrees of freedom."""
    if tails is not None and not tails > 0:
        raise ValueError(
            f"tails is {tails}, but degrees of freedom must be above zero: leave it out for normal "
            "tails"
        )


def central_units(
    features: Float[Tensor, "item feature"],
) -> tuple[Float[Tensor, " feature"], Float[Tensor, " feature"]]:
    """Median and half the width of the central two thirds of every feature, ignoring gaps.

    For normal features they are nearly mean and standard deviation; outliers do not move them.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a feature that is missing everywhere
        levels = np.nanquantile(features.cpu().numpy(), _CENTRAL, axis=0)
    low, median, high = torch.from_numpy(levels).to(features)
    return median, (high - low) / 2


def central_coordinates(features: Float[Tensor, "item feature"]) -> Tensor:
    """``asinh`` of the distance from the median in ``central_units``.

    In linear coordinates k-means would give outliers clusters of their own.
    """
    median, unit = central_units(features)
    return ((features - median) / torch.where(unit > 0, unit, 1.0)).asinh()
