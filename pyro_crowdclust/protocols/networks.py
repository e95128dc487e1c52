"""What a network may be asked for."""

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
    """A network or emission that starts anew with every fit, in the precision that ``fit`` has."""

    def draw_parameters(self) -> None:
        """Draw its parameters, so that the seed of the fit decides them."""


@runtime_checkable
class SupportsLearnPatterns(Protocol):
    """A network whose first filters are what patches of the images look like."""

    def learn_patterns(
        self, images: Float[Tensor, "item feature"], generator: torch.Generator
    ) -> None:
        """Find them from some images."""


@runtime_checkable
class SupportsSizeCheck(Protocol):
    """A recognition network that knows its sizes."""

    def check_sizes(self, num_features: int, dim: int) -> None:
        """Raise a ``ValueError`` unless it is of so many features and latent dimensions."""


@runtime_checkable
class SupportsClustersCheck(Protocol):
    """A recognition network of z, too, that knows of how many clusters it is."""

    def check_clusters(self, num_clusters: int) -> None:
        """Raise a ``ValueError`` unless it is of so many."""
