"""Observed features in other coordinates: transformed towards normal ones, selected or projected.

They stand where an emission stands, for plain mixtures. Each says what its coordinates cost,
``log_volume``: what to add to a log-density of the coordinates to have one of the features. ELBOs
of different coordinates can be compared by it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust.emissions import Identity, Standardized
from pyro_crowdclust.files.description import described


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
        a and u: where, and over which length, the transform bends; 0 and 1 by default.

    Examples
    --------
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
        """What psi is of."""
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
    # Exactly, so that codes of categories stay what they are.
    return torch.where(power == 1, x, bent)


def inverse_yeo_johnson(
    y: Float[Tensor, "*#batch"], power: Float[Tensor, "*#batch"]
) -> Float[Tensor, "*#batch"]:
    """The x of ``yeo_johnson(x, power) = y``; the nearest end of its range where there is none."""
    power = torch.where(y < 0, 2 - power, power)
    safe = torch.where(power == 0, 1.0, power)
    lowest = torch.finfo(y.dtype).eps - 1
    log = torch.where(power == 0, y.abs(), torch.log1p((safe * y.abs()).clamp_min(lowest)) / safe)
    return torch.where(power == 1, y, y.sign() * torch.expm1(log))


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


@described
class Selected(Identity):
    """``x = f(o)_S``: the components are on some of the features, and the others tell nothing.

    For features that are the same for all items, in which a component would only be surer of
    itself the more items it has.

    Parameters
    ----------
    inner
        f: ``Standardized`` or ``PowerTransformed``.
    kept
        Which features S holds.

    Examples
    --------
    >>> emission = Selected(Identity(), torch.tensor([True, False]))
    >>> emission.latent(torch.tensor([[3.0, 4.0]]))
    tensor([[3.]], dtype=torch.float64)
    """

    inner: Identity
    kept: Tensor

    def __init__(self, inner: Identity, kept: Bool[Tensor, " feature"]) -> None:
        super().__init__()
        self.inner = inner
        self.register_buffer("kept", kept)

    def latent_size(self, num_features: int) -> int:
        return len(self.own_features(num_features))

    def latent(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, "item kept_feature"]:
        return self.inner.latent(features)[:, self.kept]

    def features(self, latent: Float[Tensor, "item kept_feature"]) -> Float[Tensor, "item feature"]:
        """Features whose others are at the origin of f."""
        whole = latent.new_zeros(len(latent), len(self.kept))
        whole[:, self.kept] = latent
        return self.inner.features(whole)

    def units(self, num_features: int) -> tuple[Tensor, Tensor] | None:
        units = self.inner.units(len(self.kept))
        return None if units is None else (units[0][self.kept], units[1][self.kept])

    def own_features(self, num_features: int) -> list[int]:
        return self.kept.nonzero().flatten().tolist()

    def in_feature_units(
        self, location: Float[Tensor, "cluster column"], columns: list[int]
    ) -> Float[Tensor, "cluster feature_column"]:
        own = self.own_features(len(self.kept))
        return self.inner.in_feature_units(location, [own[column] for column in columns])

    def log_volume(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, " item"]:
        return self.inner.log_volume(features)


@described
class WithAtoms(Identity):
    """``x = (f(o), b)``, ``b_j = 1[o_j = a_j]``: one number of a feature is not like its others.

    Sums that are mostly zero, measurements below a limit: f is of the numbers beside the atom, and
    is 0 at it. ``HurdleGaussianComponents`` are on both. An atom has a mass, and ``log_volume`` is
    of the numbers beside it alone: ELBOs can be compared where atoms are the same.

    Parameters
    ----------
    inner
        f: ``Standardized``, ``PowerTransformed`` or a ``Selected`` of those.
    atoms
        a; NaN of a feature that has none.

    Examples
    --------
    >>> emission = WithAtoms(Identity(), torch.tensor([0.0, torch.nan]))
    >>> emission.latent(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
    tensor([[0., 0., 1.],
            [3., 4., 0.]], dtype=torch.float64)
    """

    inner: Identity
    atoms: Tensor

    def __init__(self, inner: Identity, atoms: Float[Tensor, " feature"]) -> None:
        super().__init__()
        self.inner = inner
        self.register_buffer("atoms", atoms.double())

    @property
    def with_atom(self) -> list[int]:
        """The features that have one."""
        return (~self.atoms.isnan()).nonzero().flatten().tolist()

    def latent_size(self, num_features: int) -> int:
        return len(self.own_features(num_features))

    def latent(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, "item dim"]:
        rows = super().latent(features)
        at_atom = rows == self.atoms
        own = self.inner.own_features(len(self.atoms))
        numbers = self.inner.latent(rows).masked_fill(at_atom[:, own], 0.0)
        missing = rows.isnan()[:, self.with_atom]
        indicators = at_atom[:, self.with_atom].double().masked_fill(missing, torch.nan)
        return torch.cat([numbers, indicators], 1)

    def features(self, latent: Float[Tensor, "item dim"]) -> Float[Tensor, "item feature"]:
        places = self.with_atom
        numbers, at_atom = latent.split([latent.shape[1] - len(places), len(places)], 1)
        features = self.inner.features(numbers)
        features[:, places] = torch.where(at_atom == 1, self.atoms[places], features[:, places])
        return features

    def units(self, num_features: int) -> tuple[Tensor, Tensor] | None:
        units = self.inner.units(len(self.atoms))
        if units is None:
            return None
        zeros = torch.zeros(len(self.with_atom), dtype=torch.float64)
        return torch.cat([units[0], zeros]), torch.cat([units[1], zeros + 1])

    def own_features(self, num_features: int) -> list[int]:
        return self.inner.own_features(len(self.atoms)) + self.with_atom

    def coordinate_names(self, names: Sequence[Hashable]) -> list[Hashable]:
        shares = (f"{names[place]} = {float(self.atoms[place]):g}" for place in self.with_atom)
        return [*self.inner.coordinate_names(names), *shares]

    def in_feature_units(
        self, location: Float[Tensor, "cluster column"], columns: list[int]
    ) -> Float[Tensor, "cluster feature_column"]:
        size = self.inner.latent_size(len(self.atoms))
        of_numbers = [place for place, column in enumerate(columns) if column < size]
        found = location.clone()
        found[:, of_numbers] = self.inner.in_feature_units(
            location[:, of_numbers], [columns[place] for place in of_numbers]
        )
        return found

    def log_volume(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, " item"]:
        rows = super().latent(features)
        return self.inner.log_volume(rows.masked_fill(rows == self.atoms, torch.nan))


@described
class OneHot(Identity):
    """``x = (f(o)_S, b)``, ``b_jc = 1[o_j = c]``: a number for every category of a feature.

    For Gaussians and regressions, which know numbers alone. S are the other features.

    Parameters
    ----------
    inner
        f: ``Standardized``, ``PowerTransformed`` or a ``Selected`` of those.
    sizes
        How many categories every feature has, 0 of numbers.

    Examples
    --------
    >>> emission = OneHot(Identity(), [0, 2])
    >>> emission.latent(torch.tensor([[0.5, 1.0], [2.5, 0.0]]))
    tensor([[0.5000, 0.0000, 1.0000],
            [2.5000, 1.0000, 0.0000]], dtype=torch.float64)
    """

    inner: Identity

    def __init__(self, inner: Identity, sizes: Sequence[int]) -> None:
        super().__init__()
        self.inner, self.sizes = inner, list(sizes)
        own = inner.own_features(len(self.sizes))
        # Places among the coordinates of f, and features.
        self._numbers = [place for place, feature in enumerate(own) if not self.sizes[feature]]
        self._categories = [feature for feature, size in enumerate(self.sizes) if size]

    def latent_size(self, num_features: int) -> int:
        return len(self._numbers) + sum(self.sizes)

    def latent(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, "item dim"]:
        rows = super().latent(features)
        parts = [self.inner.latent(rows)[:, self._numbers]]
        for feature in self._categories:
            code = rows[:, [feature]]
            indicators = (code == torch.arange(self.sizes[feature], device=code.device)).double()
            parts.append(indicators.masked_fill(code.isnan(), torch.nan))
        return torch.cat(parts, 1)

    def features(self, latent: Float[Tensor, "item dim"]) -> Float[Tensor, "item feature"]:
        """Features whose categories are the likeliest ones."""
        sizes = [len(self._numbers), *(self.sizes[feature] for feature in self._categories)]
        numbers, *indicators = latent.split(sizes, 1)
        whole = latent.new_zeros(len(latent), self.inner.latent_size(len(self.sizes)))
        whole[:, self._numbers] = numbers
        features = self.inner.features(whole)
        for feature, own in zip(self._categories, indicators, strict=True):
            features[:, feature] = own.argmax(1).to(features)
        return features

    def units(self, num_features: int) -> tuple[Tensor, Tensor] | None:
        units = self.inner.units(num_features)
        if units is None:
            return None
        zeros = torch.zeros(sum(self.sizes), dtype=torch.float64)
        location, scale = (unit[self._numbers] for unit in units)
        return torch.cat([location, zeros]), torch.cat([scale, zeros + 1])

    def own_features(self, num_features: int) -> list[int]:
        own = self.inner.own_features(num_features)
        codes = (feature for feature in self._categories for _ in range(self.sizes[feature]))
        return [*(own[place] for place in self._numbers), *codes]

    def coordinate_names(self, names: Sequence[Hashable]) -> list[Hashable]:
        inner = self.inner.coordinate_names(names)
        codes = (
            f"{names[feature]} = {code}"
            for feature in self._categories
            for code in range(self.sizes[feature])
        )
        return [*(inner[place] for place in self._numbers), *codes]

    def in_feature_units(
        self, location: Float[Tensor, "cluster column"], columns: list[int]
    ) -> Float[Tensor, "cluster feature_column"]:
        of_numbers = [place for place, column in enumerate(columns) if column < len(self._numbers)]
        found = location.clone()
        found[:, of_numbers] = self.inner.in_feature_units(
            location[:, of_numbers], [self._numbers[columns[place]] for place in of_numbers]
        )
        return found

    def log_volume(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, " item"]:
        """Of the numbers; categories have masses, and f leaves them as they are."""
        return self.inner.log_volume(features)


__all__ = [
    "OneHot",
    "PowerTransformed",
    "Projected",
    "Selected",
    "WithAtoms",
    "inverse_yeo_johnson",
    "yeo_johnson",
]
