"""The clusters that items could choose in a sweep, and those they chose."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Int


def _none() -> Int[np.ndarray, " none"]:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Choices:
    """What every item of a sweep could choose, and what it chose, from which priors learn.

    Attributes
    ----------
    sizes
        The sizes of the clusters that items could join, item after item.
    compared
        How many items of each of these clusters the item was compared with.
    number
        How many clusters each item could join.
    chosen
        The size of the cluster that it joined, 0 if it is alone.
    """

    sizes: Int[np.ndarray, " offered"] = field(default_factory=_none)
    compared: Int[np.ndarray, " offered"] = field(default_factory=_none)
    number: Int[np.ndarray, " item"] = field(default_factory=_none)
    chosen: Int[np.ndarray, " item"] = field(default_factory=_none)
