"""Contracts of starts, and optional contracts of guides for starts."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData


class Start(Protocol):
    """A function that sets copies of model and guide to a start: ``fit(initialize=...)``."""

    def __call__(self, model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
        """Set parameters and posteriors; all random numbers must be from the generator."""


class SiteStatistics(Protocol):
    """Statistics of a start for the global sites, such as those of a partition of some items."""

    def statistics(self, model: Any) -> dict[str, Tensor]:
        """Expected sufficient statistics that its items add to sites of the model, by name."""
