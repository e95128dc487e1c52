"""Draws answers about pairs, and puts them into a data frame."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int


def two_coin_answers(
    same: Bool[np.ndarray, " pair"],
    sensitivity: float | Float[np.ndarray, " pair"],
    specificity: float | Float[np.ndarray, " pair"],
    rng: np.random.Generator,
) -> Int[np.ndarray, " pair"]:
    """1 for "same", 0 for "different", drawn with the rates of the worker."""
    says_same = np.where(same, sensitivity, 1 - specificity)
    return (rng.random(len(same)) < says_same).astype(np.int64)


def answer_frame(
    pairs: Int[np.ndarray, "pair 2"],
    worker: int | Int[np.ndarray, " pair"],
    label: Int[np.ndarray, " pair"],
) -> pd.DataFrame:
    """One answer per row, with the smaller position as ``left``."""
    left, right = np.sort(pairs, axis=1).T
    return pd.DataFrame({"left": left, "right": right, "worker": worker, "label": label})
