"""Renumbers clusters without gaps."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int


def renumbered(
    group: Int[np.ndarray, "#row #column"], number: Int[np.ndarray, "row column"]
) -> Int[np.ndarray, "row column"]:
    """Renumber the numbers that each group uses as 0, 1, 2, ...

    Parameters
    ----------
    group
        From 0 on.
    number
        Any numbers from 0 on; their order is kept.

    Examples
    --------
    >>> renumbered(np.array([[0], [0], [1]]), np.array([[5], [3], [7]])).tolist()
    [[1], [0], [0]]
    """
    most = int(number.max()) + 1
    used, place = np.unique(group * most + number, return_inverse=True)
    first = np.searchsorted(used // most, np.arange(int(group.max()) + 1))
    return place.reshape(number.shape) - first[group]
