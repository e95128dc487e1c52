"""Selection of the features that components model."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.files.parts import described


@described
class Selected(Identity):
    """``x = f(o)_S``: the components model a subset of the features and ignore the others.

    To leave out features that are constant or follow from others, in which the density of a
    component grows without limit with its number of items. ``log_volume`` is that of the kept ones.

    Parameters
    ----------
    inner
        f: ``Standardized`` or ``PowerTransformed``.
    kept
        Mask of the features in S.

    Examples
    --------
    >>> import torch
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
        """Features, with those not selected at the origin of f."""
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
        rows = super().latent(features)
        return self.inner.log_volume(rows.masked_fill(~self.kept, torch.nan))
