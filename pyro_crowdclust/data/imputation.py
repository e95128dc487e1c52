"""Imputation of missing features for distances between items."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def median_imputed(features: Float[Tensor, "item feature"]) -> Float[Tensor, "item feature"]:
    """Features whose gaps hold the median of their column, for distances between items.

    The median is a value that occurs, so codes, counts and binary features stay valid.
    """
    missing = features.isnan()
    if not missing.any():
        return features
    median = features.nanmedian(0).values.nan_to_num()
    return torch.where(missing, median, features)
