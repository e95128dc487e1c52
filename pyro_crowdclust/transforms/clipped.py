"""Coordinates clipped to bounds."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.files.parts import described
from pyro_crowdclust.transforms.bounded import Bounded


@described
class Clipped(Bounded):
    """``x_j = min(max(f(o)_j, l_j), h_j)``: outlying numbers are clipped.

    A single outlier in one of many columns would separate its row from all others, and dominate a
    direction. ``log_volume`` is that of f: the density is that of the clipped numbers.

    Parameters
    ----------
    inner
        f.
    low, high
        l and h.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust.emissions import Identity
    >>> bound = torch.ones(2)
    >>> emission = Clipped(Identity(), -bound, bound)
    >>> emission.latent(torch.tensor([[0.5, 99.0], [-7.0, torch.nan]]))
    tensor([[ 0.5000,  1.0000],
            [-1.0000,     nan]], dtype=torch.float64)
    """

    def latent(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, "item coordinate"]:
        return self.inner.latent(features).clamp(self.low, self.high)
