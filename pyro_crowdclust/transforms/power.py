"""Power transforms that make columns symmetric."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.emissions import Standardized
from pyro_crowdclust.files.parts import described


@described
class PowerTransformed(Standardized):
    """``x_j = (psi((o_j - a_j) / u_j; p_j) - location_j) / scale_j``: columns made symmetric.

    psi is the transform of Yeo and Johnson 2000, a power of ``1 + o`` for positive and of ``1 - o``
    for negative numbers, the identity at p = 1 and a logarithm at p = 0 (of positive ones):

        psi(o; p) = ((1 + o)^p - 1) / p               o >= 0
        psi(o; p) = -((1 - o)^(2 - p) - 1) / (2 - p)  o < 0

    Parameters
    ----------
    powers
        p of every feature.
    location, scale
        Of the transformed features.
    origin, unit
        a and u: the point where the transform bends, and its length scale; 0 and 1 by default.

    Examples
    --------
    >>> import math
    >>> one = torch.ones(1)
    >>> emission = PowerTransformed(0 * one, 0 * one, one)
    >>> emission.latent(torch.tensor([[math.e - 1]])).round(decimals=6)
    tensor([[1.]], dtype=torch.float64)
    """

    powers: Tensor
    origin: Tensor
    unit: Tensor

    def __init__(
        self,
        powers: Float[Tensor, " feature"],
        location: Float[Tensor, " feature"],
        scale: Float[Tensor, " feature"],
        origin: Float[Tensor, " feature"] | None = None,
        unit: Float[Tensor, " feature"] | None = None,
    ) -> None:
        super().__init__(location, scale)
        origin = torch.zeros_like(self.scale) if origin is None else origin.double()
        unit = torch.ones_like(self.scale) if unit is None else unit.double()
        self.register_buffer("powers", powers.double())
        self.register_buffer("origin", origin)
        self.register_buffer("unit", unit)

    def latent(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, "item feature"]:
        return super().latent(yeo_johnson(self._units(features), self.powers))

    def _units(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, "item feature"]:
        """The argument of psi."""
        return (features.flatten(1).double() - self.origin) / self.unit

    def features(self, latent: Float[Tensor, "item feature"]) -> Float[Tensor, "item feature"]:
        return self.in_feature_units(latent, list(range(len(self.powers))))

    def units(self, num_features: int) -> None:
        return None

    def in_feature_units(
        self, location: Float[Tensor, "cluster column"], columns: list[int]
    ) -> Float[Tensor, "cluster feature_column"]:
        bent = super().in_feature_units(location, columns)
        straight = inverse_yeo_johnson(bent, self.powers[columns])
        return self.origin[columns] + self.unit[columns] * straight

    def log_volume(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, " item"]:
        own = self._units(features)
        # d psi / d o = (1 + |o|)^(p - 1) for positive o and ^(1 - p) for negative.
        slope = torch.where(own < 0, 1 - self.powers, self.powers - 1) * own.abs().log1p()
        return super().log_volume(features) + (slope - self.unit.log()).nansum(1)


def yeo_johnson(
    x: Float[Tensor, "*#batch"], power: Float[Tensor, "*#batch"]
) -> Float[Tensor, "*#batch"]:
    """psi of ``PowerTransformed``.

    Examples
    --------
    >>> yeo_johnson(torch.tensor([-3.0, 3.0]), torch.tensor(1.0))
    tensor([-3.,  3.])
    """
    power = torch.where(x < 0, 2 - power, power)
    log = x.abs().log1p()
    # expm1(p l) / p, which is l at p = 0.
    safe = torch.where(power == 0, 1.0, power)
    bent = x.sign() * torch.where(power == 0, log, torch.expm1(power * log) / safe)
    # Exactly the identity, so that codes of categories are unchanged.
    return torch.where(power == 1, x, bent)


def inverse_yeo_johnson(
    y: Float[Tensor, "*#batch"], power: Float[Tensor, "*#batch"]
) -> Float[Tensor, "*#batch"]:
    """The x of ``yeo_johnson(x, power) = y``; the end of its range if there is no x."""
    power = torch.where(y < 0, 2 - power, power)
    safe = torch.where(power == 0, 1.0, power)
    lowest = torch.finfo(y.dtype).eps - 1
    log = torch.where(power == 0, y.abs(), torch.log1p((safe * y.abs()).clamp_min(lowest)) / safe)
    return torch.where(power == 1, y, y.sign() * torch.expm1(log))
