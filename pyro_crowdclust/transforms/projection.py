"""Projection on a few directions of the features, with a density of the features."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.emissions import OF_SEVERAL, Identity
from pyro_crowdclust.files.parts import described


@described
class Projected(Identity):
    """``x = (W (f(o) - m)) / s`` with orthonormal rows of W: the components model r directions.

    The rest is noise, the same for all components, so that the features have a density:
    ``log p(o) = log p(x) - sum log s + log N(rest; 0, v I) + log|df / do|``, where the rest has D -
    r dimensions. With the principal directions of f(o) this is a mixture of probabilistic principal
    components (Tipping and Bishop 1999) that share their directions.

    Parameters
    ----------
    inner
        f: ``Standardized`` or ``PowerTransformed``, in whose coordinates the directions are.
    mean
        m, of f(o).
    directions
        W, one row per direction.
    scale
        s, divisor of the projections, so that priors for standardized features fit them; one
        number, or one for each direction.
    residual
        v, variance of every dimension outside the directions.
    beside
        Features that are unchanged coordinates after the directions: categories, counts, binary
        ones. f transforms the others.

    Examples
    --------
    >>> emission = Projected(Identity(), torch.zeros(2), torch.tensor([[0.6, 0.8]]), 1.0, 0.01)
    >>> emission.latent(torch.tensor([[3.0, 4.0]])).round(decimals=6)
    tensor([[5.]], dtype=torch.float64)
    """

    mixes_features = True
    inner: Identity
    mean: Tensor
    directions: Tensor
    scale: Tensor

    def __init__(
        self,
        inner: Identity,
        mean: Float[Tensor, " feature"],
        directions: Float[Tensor, "direction feature"],
        scale: float | Float[Tensor, " direction"],
        residual: float,
        beside: Sequence[int] = (),
    ) -> None:
        super().__init__()
        scales = torch.as_tensor(scale, dtype=torch.float64).expand(len(directions)).clone()
        if not (bool((scales > 0).all()) and residual > 0):
            raise ValueError(f"scale is {scale} and residual {residual}, but both must be above 0")
        self.inner, self.residual, self.beside = inner, residual, list(beside)
        self.register_buffer("scale", scales)
        self.register_buffer("mean", mean.double())
        self.register_buffer("directions", directions.double())

    @property
    def takes_gaps(self) -> bool:
        """Whether f fills gaps."""
        return self.inner.fills_gaps

    @property
    def fills_gaps(self) -> bool:
        """Whether f fills gaps, and there are no features ``beside``."""
        return self.inner.fills_gaps and not self.beside

    def latent_size(self, num_features: int) -> int:
        return len(self.directions) + len(self.beside)

    def latent(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, "item dim"]:
        others = super().latent(features)[:, self.beside]
        return torch.cat([self.on_directions(features), others], 1)

    def on_directions(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, "item direction"]:
        """The coordinates along the directions, without the features ``beside``."""
        return (self.inner.latent(features) - self.mean) @ self.directions.mT / self.scale

    def features(self, latent: Float[Tensor, "item dim"]) -> Float[Tensor, "item feature"]:
        """The features on the plane of the directions, and the features ``beside``."""
        number = len(self.directions)
        features = self._on_plane(latent[:, :number])
        features[:, self.beside] = latent[:, number:]
        return features

    def _on_plane(self, points: Float[Tensor, "item direction"]) -> Float[Tensor, "item feature"]:
        return self.inner.features(self.mean + (self.scale * points) @ self.directions)

    def filled_in(
        self, features: Float[Tensor, "item ..."], generator: torch.Generator
    ) -> Float[Tensor, "item ..."]:
        return self.inner.filled_in(features, generator)

    def units(self, num_features: int) -> None:
        return None

    def own_features(self, num_features: int) -> list[int]:
        return [OF_SEVERAL] * len(self.directions) + self.beside

    def coordinate_names(self, names: Sequence[Hashable]) -> list[Hashable]:
        numbers = (f"direction {number}" for number in range(len(self.directions)))
        return [*numbers, *(names[feature] for feature in self.beside)]

    def in_feature_units(
        self, location: Float[Tensor, "cluster column"], columns: list[int]
    ) -> Float[Tensor, "cluster feature_column"]:
        """A column for every feature of f, then those of the features ``beside``."""
        number = len(self.directions)
        features = self._on_plane(location[:, :number])
        own = self.inner.own_features(features.shape[1])
        return torch.cat([features[:, sorted({*own})], location[:, number:]], 1)

    def log_volume(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, " item"]:
        centered = self.inner.latent(features) - self.mean
        left = centered.shape[1] - self.directions.shape[0]
        rest = centered.square().sum(1) - (centered @ self.directions.mT).square().sum(1)
        normal = -(rest / self.residual + left * math.log(2 * math.pi * self.residual)) / 2
        volume = self.inner.log_volume(features) - self.scale.log().sum()
        return volume + normal
