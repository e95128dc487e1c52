"""What items could choose in a sweep."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Int


def _none() -> Int[np.ndarray, " none"]:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Choices:
    """What every item of a sweep could choose, and what it chose: from this priors learn.

    Attributes
    ----------
    sizes
        The sizes of the clusters that items could join, of one item after the other.
    compared
        With how many of each of these clusters the item was compared.
    number
        How many of them are of each item.
    chosen
        The size of the one that it joined, 0 where it is alone.
    """

    sizes: Int[np.ndarray, " offered"] = field(default_factory=_none)
    compared: Int[np.ndarray, " offered"] = field(default_factory=_none)
    number: Int[np.ndarray, " item"] = field(default_factory=_none)
    chosen: Int[np.ndarray, " item"] = field(default_factory=_none)
