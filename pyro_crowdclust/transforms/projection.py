"""Components on a few directions of the features."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.files.parts import described


@described
class Projected(Identity):
    """``x = (W (f(o) - m)) / s`` with orthonormal rows of W: the components are on r directions.

    What the directions leave out is noise, the same for all components, so that the features have
    a density: ``log p(o) = log p(x) - sum log s + log N(rest; 0, v I) + log|df / do|``, where the
    rest has D - r dimensions. With the principal directions of f(o) this is a mixture of
    probabilistic principal components (Tipping and Bishop 1999) that share their directions.

    Parameters
    ----------
    inner
        f: ``Standardized`` or ``PowerTransformed``, what the directions are of.
    mean
        m, of f(o).
    directions
        W, one row for each.
    scale
        s: what the projections are divided by, so that priors for standardized features suit them;
        one number, or one for each direction.
    residual
        v, variance of every dimension that is left out.

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
    ) -> None:
        super().__init__()
        scales = torch.as_tensor(scale, dtype=torch.float64).expand(len(directions)).clone()
        if not (bool((scales > 0).all()) and residual > 0):
            raise ValueError(f"scale {scale} and residual {residual} must be above zero")
        self.inner, self.residual = inner, residual
        self.register_buffer("scale", scales)
        self.register_buffer("mean", mean.double())
        self.register_buffer("directions", directions.double())

    @property
    def fills_gaps(self) -> bool:  # type: ignore[override]
        """Whether f leaves none."""
        return self.inner.fills_gaps

    def latent_size(self, num_features: int) -> int:
        return self.directions.shape[0]

    def latent(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, "item direction"]:
        return (self.inner.latent(features) - self.mean) @ self.directions.mT / self.scale

    def features(self, latent: Float[Tensor, "item direction"]) -> Float[Tensor, "item feature"]:
        """The features on the plane of the directions."""
        return self.inner.features(self.mean + (self.scale * latent) @ self.directions)

    def units(self, num_features: int) -> None:
        return None

    def in_feature_units(
        self, location: Float[Tensor, "cluster column"], columns: list[int]
    ) -> Float[Tensor, "cluster feature_column"]:
        return self.features(location)

    def log_volume(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, " item"]:
        centered = self.inner.latent(features) - self.mean
        left = centered.shape[1] - self.directions.shape[0]
        rest = centered.square().sum(1) - (centered @ self.directions.mT).square().sum(1)
        normal = -(rest / self.residual + left * math.log(2 * math.pi * self.residual)) / 2
        volume = self.inner.log_volume(features) - self.scale.log().sum()
        return volume + normal
