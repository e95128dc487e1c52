"""How near components are to each other, in units of the standard deviation within components."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist

from pyro_crowdclust.distributions.summaries import MixtureSummary
from pyro_crowdclust.families import SMALLEST_PROBABILITY

# Components with less weight are empty: they lie where the prior puts them, and count as near to
# none.
_MIN_WEIGHT = 1e-6
# How fast shares fall with the squared distance beyond that to the nearest component.
_DECAY = 2.0


def standardize(
    mixture: MixtureSummary, points: Float[np.ndarray, "point column"]
) -> Float[np.ndarray, "point column"]:
    """Points in units in which the average covariance of the components is the identity.

    Without covariances, as for discrete components, they stay as they are.
    """
    if mixture.covariance is None:
        return points
    weights = mixture.weights.double().numpy(force=True)
    spread = np.tensordot(weights / weights.sum(), mixture.covariance.double().numpy(force=True), 1)
    if spread.ndim == 1:
        return points / np.sqrt(spread)
    return solve_triangular(np.linalg.cholesky(spread), points.T, lower=True).T


def near_shares(mixture: MixtureSummary) -> Float[np.ndarray, "component component"]:
    """``near_kl propto exp(-2 (d_kl^2 - d_k^2) / h)``, rows that sum to one.

    d_kl are the distances of the means in units of the spread within components, d_k is the
    distance to the nearest other component, and h the mean of its square. Empty components get no
    share.

    Examples
    --------
    >>> import torch
    >>> places = torch.tensor([[0.0], [1.0], [20.0]])
    >>> near_shares(MixtureSummary(torch.ones(3) / 3, places, None)).round(2)
    array([[0.  , 1.  , 0.  ],
           [1.  , 0.  , 0.  ],
           [0.34, 0.66, 0.  ]])
    """
    means = standardize(mixture, mixture.location.double().numpy(force=True))
    in_use = mixture.weights.double().numpy(force=True) > _MIN_WEIGHT
    others = in_use[None, :] & ~np.eye(len(means), dtype=bool)
    distance = np.where(others, cdist(means, means, "sqeuclidean"), np.inf)
    nearest = distance.min(1, keepdims=True)
    found = nearest[np.isfinite(nearest) & in_use[:, None]]
    scale = found.mean() if len(found) else 0.0
    if scale == 0:
        return np.where(others, 1.0, 0.0) / np.maximum(others.sum(1, keepdims=True), 1)
    shares = np.exp(-_DECAY * (distance - np.where(np.isfinite(nearest), nearest, 0.0)) / scale)
    return shares / np.maximum(shares.sum(1, keepdims=True), SMALLEST_PROBABILITY)
