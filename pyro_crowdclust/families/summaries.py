"""Posterior mean, standard deviation and interval of a parameter, for tables."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import scipy  # submodules are loaded when they are used
from jaxtyping import Float
from torch import Tensor


class PosteriorSummary(NamedTuple):
    """Posterior mean, deviation and central interval, entry by entry.

    Deviation and interval are NaN for point estimates.
    """

    mean: np.ndarray
    sd: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


@runtime_checkable
class SupportsShares(Protocol):
    """A family whose values are probabilities, or rows of them that sum to one."""

    def share_moments(
        self, natural_parameters: Float[Tensor, "*batch size"]
    ) -> tuple[Float[Tensor, "*share"], Float[Tensor, "*share"]]:
        """Mean and variance of every probability."""


def beta_summary(
    successes: Float[np.ndarray, "*batch"], failures: Float[np.ndarray, "*batch"], interval: float
) -> PosteriorSummary:
    """Summary of ``Beta(successes, failures)``; an interval without mass is its mean.

    Quantiles take a hundred times as long as everything else: pass 0 if only the mean is needed.

    Examples
    --------
    >>> import numpy as np
    >>> beta_summary(np.array([1.0]), np.array([1.0]), 0.9).upper
    array([0.95])
    """
    beta = scipy.stats.beta(successes, failures)
    mean = np.asarray(beta.mean())
    bounds = beta.interval(interval) if interval else (mean, mean)
    return PosteriorSummary(mean, *map(np.asarray, (beta.std(), *bounds)))


def beta_of_moments(
    mean: Float[np.ndarray, "*batch"],
    variance: Float[np.ndarray, "*batch"],
    fewest: float = 1e-6,
) -> tuple[Float[np.ndarray, "*batch"], Float[np.ndarray, "*batch"]]:
    """``a, b`` of the ``Beta(a, b)`` with these moments, ``a + b = m (1 - m) / v - 1``.

    Parameters
    ----------
    mean, variance
        m and v. A variance below 1e-12 is read as that.
    fewest
        The smallest ``a + b``, for variances that are too large for any Beta.

    Examples
    --------
    >>> import numpy as np
    >>> beta_of_moments(np.array([0.5]), np.array([1 / 12]))  # the uniform distribution
    (array([1.]), array([1.]))
    """
    total = np.maximum(mean * (1 - mean) / np.maximum(variance, 1e-12) - 1, fewest)
    return mean * total, (1 - mean) * total


def summary_of_moments(
    mean: Float[np.ndarray, "*batch"], variance: Float[np.ndarray, "*batch"], interval: float
) -> PosteriorSummary:
    """These moments of shares, with intervals of Betas that match them.

    Because of rounding, shares close to 0 or 1 may have a variance that is too large for a Beta.

    Examples
    --------
    >>> import numpy as np
    >>> summary_of_moments(np.array([0.5]), np.array([1 / 12]), 0.9).upper
    array([0.95])
    """
    beta = beta_summary(*beta_of_moments(mean, variance), interval)
    return PosteriorSummary(mean, np.sqrt(np.maximum(variance, 1e-12)), beta.lower, beta.upper)


def summarize_shares(
    concentration: Float[Tensor, "*shape"], others: Float[Tensor, "*shape"], interval: float
) -> PosteriorSummary:
    """Summary of the shares of Dirichlets: each share is Beta distributed."""
    return beta_summary(concentration.numpy(force=True), others.numpy(force=True), interval)


def mixed_summary(
    first: PosteriorSummary, second: PosteriorSummary, weight: float, interval: float
) -> PosteriorSummary:
    """The mixture of two posteriors of shares, the second with this weight, by its moments.

    Examples
    --------
    >>> one, other = (summary_of_moments(np.array([m]), np.array([0.0]), 0.0) for m in (0.2, 0.6))
    >>> mixed = mixed_summary(one, other, 0.5, 0.0)
    >>> mixed.mean.round(2).tolist(), mixed.sd.round(2).tolist()
    ([0.4], [0.2])
    """
    mean = (1 - weight) * first.mean + weight * second.mean
    within = (1 - weight) * first.sd**2 + weight * second.sd**2
    between = weight * (1 - weight) * (first.mean - second.mean) ** 2
    return summary_of_moments(mean, within + between, interval)
