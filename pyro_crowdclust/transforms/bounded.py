"""Base class of coordinates with lower and upper bounds."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.transforms.of_inner import OfInner


class Bounded(OfInner):
    """``OfInner`` with a lower and an upper bound for every number; subclasses define their use.

    Parameters
    ----------
    inner
        The coordinates to change.
    low, high
        The bounds.
    """

    low: Tensor
    high: Tensor

    def __init__(
        self, inner: Identity, low: Float[Tensor, " number"], high: Float[Tensor, " number"]
    ) -> None:
        super().__init__(inner)
        is_wrong = ~(low <= high)
        if bool(is_wrong.any()):
            raise ValueError(
                f"low is above high for {int(is_wrong.sum())} of {is_wrong.numel()} numbers: give "
                "bounds with low <= high"
            )
        self.register_buffer("low", low.double())
        self.register_buffer("high", high.double())
