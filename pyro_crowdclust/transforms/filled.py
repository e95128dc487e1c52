"""Coordinates of which none is missing."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.files.parts import described


@described
class Filled(Identity):
    """``x_j = f(o)_j``, or ``m_j`` where that is missing.

    For regressions, whose scores are linear in x: with m the mean, the score of an item is what is
    expected of it where coordinates are independent, ``E[<phi, x> | x_seen] = <phi, (x_seen, m)>``.
    Components integrate out what is missing, and need no such thing.

    Parameters
    ----------
    inner
        f.
    mean
        m.

    Examples
    --------
    >>> emission = Filled(Identity(), torch.tensor([0.0, 7.0]))
    >>> emission.latent(torch.tensor([[3.0, torch.nan]]))
    tensor([[3., 7.]], dtype=torch.float64)
    """

    fills_gaps = True
    inner: Identity
    mean: Tensor

    def __init__(self, inner: Identity, mean: Float[Tensor, " coordinate"]) -> None:
        super().__init__()
        self.inner = inner
        self.register_buffer("mean", mean.double())

    def latent_size(self, num_features: int) -> int:
        return self.inner.latent_size(num_features)

    def latent(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, "item coordinate"]:
        points = self.inner.latent(features)
        return torch.where(points.isnan(), self.mean, points)

    def features(self, latent: Float[Tensor, "item coordinate"]) -> Float[Tensor, "item feature"]:
        return self.inner.features(latent)

    def units(self, num_features: int) -> tuple[Tensor, Tensor] | None:
        return self.inner.units(num_features)

    def own_features(self, num_features: int) -> list[int]:
        return self.inner.own_features(num_features)

    def coordinate_names(self, names: Sequence[Hashable]) -> list[Hashable]:
        return self.inner.coordinate_names(names)

    def in_feature_units(
        self, location: Float[Tensor, "cluster column"], columns: list[int]
    ) -> Float[Tensor, "cluster feature_column"]:
        return self.inner.in_feature_units(location, columns)

    def log_volume(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, " item"]:
        """Of what was seen."""
        return self.inner.log_volume(features)
