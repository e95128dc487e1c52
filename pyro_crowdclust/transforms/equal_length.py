"""Rows scaled to equal length, so that they differ only in direction."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.transforms.of_inner import OfInner


@described
class EqualLength(OfInner):
    """``x = a + L (f(o) - a) / |f(o) - a|``, a where the features are zero.

    Use it where the length carries no information, as for word counts of long and short texts, or
    outputs of some networks. ``log_volume`` is that of f plus ``D log(L / |f(o) - a|)``: of D
    features with given length.

    Parameters
    ----------
    inner
        f, which must fill gaps.
    zero
        a.
    length
        L, above 0. A row that equals a stays there.

    Examples
    --------
    >>> emission = EqualLength(Identity(), torch.zeros(2), 10.0)
    >>> emission.latent(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[6., 8.],
            [0., 0.]], dtype=torch.float64)
    """

    zero: Tensor

    def __init__(self, inner: Identity, zero: Float[Tensor, " coordinate"], length: float) -> None:
        super().__init__(inner)
        if not length > 0:
            raise ValueError(f"length is {length}, but must be above 0")
        self.length = length
        self.register_buffer("zero", zero.double())

    @property
    def takes_gaps(self) -> bool:
        """Whether f fills them: the length of a row with gaps is unknown."""
        return self.inner.fills_gaps

    def latent(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, "item coordinate"]:
        away = self.inner.latent(features) - self.zero
        return self.zero + self.length * away / self._lengths(away).unsqueeze(1)

    def _lengths(self, away: Float[Tensor, "item coordinate"]) -> Float[Tensor, " item"]:
        lengths = torch.linalg.vector_norm(away, dim=1)
        return torch.where(lengths > 0, lengths, 1.0)

    def units(self, num_features: int) -> None:
        return None

    def log_volume(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, " item"]:
        away = self.inner.latent(features) - self.zero
        stretched = away.shape[1] * (math.log(self.length) - self._lengths(away).log())
        return self.inner.log_volume(features) + stretched
