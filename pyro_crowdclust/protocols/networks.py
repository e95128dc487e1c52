"""Optional contracts of networks."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class SupportsDrawParameters(Protocol):
    """A network or emission that every fit gives new random parameters, in its precision."""

    def draw_parameters(self) -> None:
        """Draw its parameters, so that they depend on the seed of the fit."""


@runtime_checkable
class SupportsSizeCheck(Protocol):
    """A recognition network that checks its sizes."""

    def check_sizes(self, num_features: int, dim: int) -> None:
        """Raise a ``ValueError`` unless it has these numbers of features and latent dimensions."""
