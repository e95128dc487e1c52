"""Values for gaps, where items are compared by distances."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def median_imputed(features: Float[Tensor, "item feature"]) -> Float[Tensor, "item feature"]:
    """Features whose gaps hold the median of their column, for distances between items.

    It is a value that somebody has: a code, a count, yes or no.
    """
    missing = features.isnan()
    if not missing.any():
        return features
    median = features.nanmedian(0).values.nan_to_num()
    return torch.where(missing, median, features)
