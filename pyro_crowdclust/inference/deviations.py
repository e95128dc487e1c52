"""Posterior summaries whose deviations count what draws say is uncertain."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from pyro_crowdclust.families import PosteriorSummary, summary_of_moments


def deviation_around(
    own: Float[np.ndarray, "*shape"],
    own_sd: Float[np.ndarray, "*shape"],
    mean: Float[np.ndarray, "draw ..."],
    variance: Float[np.ndarray, "draw ..."],
) -> Float[np.ndarray, "*shape"]:
    """``E[(a - own)^2]`` under draws of posteriors with these moments, as a standard deviation.

    It is never below ``own_sd``.

    Examples
    --------
    >>> zero = np.zeros(1)
    >>> deviation_around(zero, zero, np.array([[3.0], [-3.0]]), np.array([[16.0], [16.0]]))
    array([5.])
    """
    return np.maximum(np.sqrt((variance + (mean - own) ** 2).mean(0)), own_sd)


def widened(
    own: PosteriorSummary,
    mean: Float[np.ndarray, "draw ..."],
    variance: Float[np.ndarray, "draw ..."],
    interval: float,
) -> PosteriorSummary:
    """Shares with the deviation of draws around their means, where it is larger than theirs.

    Intervals have no less than their own: beside 0 or 1 no Beta has a large deviation.
    """
    sd = deviation_around(own.mean, own.sd, mean, variance)
    found = summary_of_moments(own.mean, sd**2, interval)
    lower, upper = np.minimum(found.lower, own.lower), np.maximum(found.upper, own.upper)
    return PosteriorSummary(found.mean, found.sd, lower, upper)
