"""One-hot coordinates of categorical features."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.transforms.numbers import numbers_in_feature_units


@described
class OneHot(Identity):
    """``x = (f(o)_S, b)``, ``b_jc = 1[o_j = c]``: an indicator for every category of a feature.

    For Gaussians and regressions, which need numbers. S are the features that are not categorical.

    Parameters
    ----------
    inner
        f: ``Standardized``, ``PowerTransformed`` or a ``Selected`` of those.
    sizes
        Number of categories of every feature, 0 for numbers.

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
        # Positions among the coordinates of f, and features.
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
        """Features with the most probable categories."""
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
        return numbers_in_feature_units(self.inner, self._numbers, location, columns)

    def log_volume(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, " item"]:
        """That of the numbers; categories have probability masses, and f does not change them."""
        return self.inner.log_volume(features)
