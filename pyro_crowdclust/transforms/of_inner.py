"""Base class of coordinates that change those of another emission, entry by entry or row by row."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.emissions import Identity


class OfInner(Identity):
    """As many coordinates as ``inner``, of the same features; delegates all but ``latent`` to it.

    Parameters
    ----------
    inner
        The coordinates to change.
    """

    inner: Identity

    def __init__(self, inner: Identity) -> None:
        super().__init__()
        self.inner = inner

    @property
    def takes_gaps(self) -> bool:
        """Whether ``inner`` does."""
        return self.inner.takes_gaps

    @property
    def fills_gaps(self) -> bool:
        """Whether ``inner`` does."""
        return self.inner.fills_gaps

    @property
    def mixes_features(self) -> bool:
        """Whether ``inner`` does."""
        return self.inner.mixes_features

    def latent_size(self, num_features: int) -> int:
        return self.inner.latent_size(num_features)

    def features(self, latent: Float[Tensor, "item coordinate"]) -> Float[Tensor, "item feature"]:
        return self.inner.features(latent)

    def filled_in(
        self, features: Float[Tensor, "item ..."], generator: torch.Generator
    ) -> Float[Tensor, "item ..."]:
        return self.inner.filled_in(features, generator)

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
        """The log volume of the observed features."""
        return self.inner.log_volume(features)
