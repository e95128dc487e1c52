"""Optional contracts of networks."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor


@runtime_checkable
class SupportsSetLinear(Protocol):
    """A network that can begin as a linear map: for the start at principal components."""

    def set_linear(
        self, weight: Float[Tensor, "output input"], bias: Float[Tensor, " output"]
    ) -> None:
        """Become ``x -> W x + b``."""


@runtime_checkable
class SupportsDrawParameters(Protocol):
    """A network or emission that every fit gives new random parameters, in its precision."""

    def draw_parameters(self) -> None:
        """Draw its parameters, so that they depend on the seed of the fit."""


@runtime_checkable
class SupportsLearnPatterns(Protocol):
    """A network whose first filters are learned from patches of the images, before training."""

    def learn_patterns(
        self, images: Float[Tensor, "item feature"], generator: torch.Generator
    ) -> None:
        """Learn the filters from some images."""


@runtime_checkable
class SupportsSizeCheck(Protocol):
    """A recognition network that checks its sizes."""

    def check_sizes(self, num_features: int, dim: int) -> None:
        """Raise a ``ValueError`` unless it has these numbers of features and latent dimensions."""


@runtime_checkable
class SupportsClustersCheck(Protocol):
    """A recognition network with a q(z | o) that checks its number of clusters."""

    def check_clusters(self, num_clusters: int) -> None:
        """Raise a ``ValueError`` unless it has this number of clusters."""
