"""No coordinates, for features without information about the classes."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.files.parts import described


@described
class NoCoordinates(Identity):
    """``x = ()``: a regression then only learns the proportions of the classes.

    Examples
    --------
    >>> NoCoordinates().latent(torch.tensor([[3.0, torch.nan]])).shape
    torch.Size([1, 0])
    """

    fills_gaps = True

    def latent_size(self, num_features: int) -> int:
        return 0

    def latent(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, "item 0"]:
        return torch.empty(len(features), 0, dtype=torch.float64, device=features.device)

    def units(self, num_features: int) -> None:
        """None: x is not o in other units."""

    def own_features(self, num_features: int) -> list[int]:
        return []
