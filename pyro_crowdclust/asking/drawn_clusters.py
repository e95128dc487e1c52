"""Draws of the clusters of components, as a one-hot table that can be summed over."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int


class DrawnClusters:
    """One-hot table of draws, with a column for every cluster that each component has in any draw.

    Parameters
    ----------
    draws
        The cluster of every component in every draw.

    Attributes
    ----------
    table
        1 where the component of the column has the cluster of the column.
    numbers
        Number of columns of every component.

    Examples
    --------
    >>> drawn = DrawnClusters(np.array([[0, 0], [0, 1]]))
    >>> drawn.table.tolist(), drawn.numbers.tolist()
    ([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]], [1, 2])
    >>> drawn.sums(np.array([1.0, 0.5, 0.2]))
    array([1. , 0.7])
    """

    def __init__(self, draws: Int[np.ndarray, "draw component"]) -> None:
        number, names = draws.shape[1], draws.max(initial=0) + 1
        codes = np.arange(number) * names + draws
        clusters = np.unique(codes)
        self.table = np.zeros((len(draws), len(clusters)))
        self.table[np.arange(len(draws))[:, None], np.searchsorted(clusters, codes)] = 1.0
        self._starts = np.searchsorted(clusters, np.arange(number) * names)
        self.numbers = np.diff(np.append(self._starts, len(clusters)))

    def sums(
        self, values: Float[np.ndarray, "*batch column"]
    ) -> Float[np.ndarray, "*batch component"]:
        """Sums over the columns of every component."""
        return np.add.reduceat(values, self._starts, axis=-1)
