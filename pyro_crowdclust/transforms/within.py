"""Features outside of bounds count as missing."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.transforms.bounded import Bounded


@described
class Within(Bounded):
    """``x = f(o)``, where o_j is missing if it is not within ``[l_j, h_j]``.

    For typing errors and codes such as -999, which carry no information about the item.
    ``log_volume`` is that of f: the density is that of the remaining features.

    Parameters
    ----------
    inner
        f.
    low, high
        l and h.

    Examples
    --------
    >>> emission = Within(Identity(), torch.zeros(2), torch.tensor([9.0, torch.inf]))
    >>> emission.latent(torch.tensor([[0.5, 99.0], [12.0, -999.0]]))
    tensor([[ 0.5000, 99.0000],
            [    nan,     nan]], dtype=torch.float64)
    """

    @property
    def makes_gaps(self) -> bool:
        """True unless f fills them."""
        return not self.inner.fills_gaps

    def seen(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, "item feature"]:
        """The features, with those outside the bounds missing."""
        rows = Identity.latent(self, features)
        return rows.masked_fill((rows < self.low) | (rows > self.high), torch.nan)

    def latent(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, "item coordinate"]:
        return self.inner.latent(self.seen(features))

    def filled_in(
        self, features: Float[Tensor, "item ..."], generator: torch.Generator
    ) -> Float[Tensor, "item ..."]:
        whole = self.inner.filled_in(self.seen(features), generator)
        return whole.reshape(features.shape)

    def log_volume(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, " item"]:
        """The log volume of the observed features within the bounds."""
        return self.inner.log_volume(self.seen(features))
