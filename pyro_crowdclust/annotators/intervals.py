"""What is known of a rate under a Beta posterior."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy  # whose parts are loaded when they are used
from jaxtyping import Float


class BetaSummary(NamedTuple):
    """Mean, deviation and central interval of Betas."""

    mean: Float[np.ndarray, "*batch"]
    sd: Float[np.ndarray, "*batch"]
    lower: Float[np.ndarray, "*batch"]
    upper: Float[np.ndarray, "*batch"]


def beta_summary(
    successes: Float[np.ndarray, "*batch"], failures: Float[np.ndarray, ...], interval: float
) -> BetaSummary:
    """Mean, deviation and central interval of ``Beta(successes, failures)``.

    Examples
    --------
    >>> import numpy as np
    >>> beta_summary(np.array([1.0]), np.array([1.0]), 0.9).upper
    array([0.95])
    """
    beta = scipy.stats.beta(successes, failures)
    return BetaSummary(beta.mean(), beta.std(), *beta.interval(interval))
