"""Coordinates that know bounds."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.transforms.of_inner import OfInner


class Bounded(OfInner):
    """``OfInner`` with a lower and an upper bound of every number; what they are for others say.

    Parameters
    ----------
    inner
        What the coordinates are of.
    low, high
        The bounds.
    """

    low: Tensor
    high: Tensor

    def __init__(
        self, inner: Identity, low: Float[Tensor, " number"], high: Float[Tensor, " number"]
    ) -> None:
        super().__init__(inner)
        if not bool((low <= high).all()):
            raise ValueError("low is above high")
        self.register_buffer("low", low.double())
        self.register_buffer("high", high.double())
