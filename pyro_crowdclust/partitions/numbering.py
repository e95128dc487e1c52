"""Numbers of clusters that leave none out."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int


def without_gaps(
    group: Int[np.ndarray, "#row #column"], number: Int[np.ndarray, "row column"]
) -> Int[np.ndarray, "row column"]:
    """The numbers that are used in every group, from 0 on.

    Parameters
    ----------
    group
        From 0 on.
    number
        Any numbers from 0 on, of which the order is kept.

    Examples
    --------
    >>> without_gaps(np.array([[0], [0], [1]]), np.array([[5], [3], [7]])).tolist()
    [[1], [0], [0]]
    """
    most = int(number.max()) + 1
    used, place = np.unique(group * most + number, return_inverse=True)
    first = np.searchsorted(used // most, np.arange(int(group.max()) + 1))
    return place.reshape(number.shape) - first[group]
