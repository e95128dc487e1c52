"""Matching of the clusters of one fit with those of another."""

from __future__ import annotations

import numpy as np
import scipy  # whose parts are loaded when they are used
from jaxtyping import Float, Int


def aligned_order(
    reference: Float[np.ndarray, "item cluster"],
    probabilities: Float[np.ndarray, "other_item other"],
) -> Int[np.ndarray, " cluster"]:
    """The order of the clusters of a fit in which they best match those of a reference.

    Maximizes ``sum_k sum_i r_ik q_{i, order(k)}`` over all orders (Hungarian algorithm): the
    expected number of items in matching clusters, if both fits draw their assignments.

    Parameters
    ----------
    reference, probabilities
        r and q: P(z_i = k) of the same items in both fits.

    Returns
    -------
    For each cluster of the reference, the number of the cluster of the other fit.

    Raises
    ------
    ValueError
        If the two differ in the number of items or of clusters.

    Examples
    --------
    >>> import numpy as np
    >>> reference = np.array([[0.9, 0.1, 0.0], [0.0, 1.0, 0.0], [0.2, 0.0, 0.8]])
    >>> aligned_order(reference, reference[:, [2, 0, 1]])
    array([1, 2, 0])
    """
    if reference.shape != probabilities.shape:
        raise ValueError(
            "clusters can be matched only in fits of the same items with the same number of "
            f"clusters, but probabilities have the shapes {list(reference.shape)} and "
            f"{list(probabilities.shape)}, [item, cluster]: fit the same data with the same number "
            "of clusters"
        )
    return scipy.optimize.linear_sum_assignment(reference.T @ probabilities, maximize=True)[1]
