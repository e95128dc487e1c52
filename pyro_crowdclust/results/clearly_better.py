"""Whether a prediction of the same answers, or items, is better than another by more than chance.

Answers are taken as independent: of those that share items the error is larger.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from torch import Tensor


def is_clearly_better(
    one: Float[np.ndarray, " answer"] | Float[Tensor, " answer"],
    other: Float[np.ndarray, " answer"] | Float[Tensor, " answer"],
    errors: float = 2.0,
) -> bool:
    """Whether the mean of one is larger by more than so many standard errors of the difference.

    Examples
    --------
    >>> other = np.zeros(4)
    >>> is_clearly_better(other + [0.2, 0.0, 0.2, 0.0], other)  # .1 with an error of .05
    False
    >>> is_clearly_better(other + [0.2, 0.0, 0.2, 0.0], other, errors=1.5)
    True
    """
    gains = np.asarray(one - other)
    return bool(gains.mean() > errors * error_of_mean(gains))


def error_of_mean(values: Float[np.ndarray, " answer"]) -> float:
    """Standard error of a mean of independent values."""
    return float(values.std() / np.sqrt(len(values)))
