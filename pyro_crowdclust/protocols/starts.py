"""Contracts of starts, and optional contracts of guides for starts."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
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


@runtime_checkable
class SupportsStartAt(Protocol):
    """A guide that can begin at a partition of the items."""

    def start_at(self, start: SiteStatistics) -> None:
        """Set the posteriors of the global sites to the priors plus the statistics."""


@runtime_checkable
class SupportsStartAtPartition(Protocol):
    """A guide, or a recognition network, that can learn a partition before training."""

    def start_at_partition(
        self,
        features: Float[Tensor, "item feature"],
        responsibilities: Float[Tensor, "item cluster"],
        generator: torch.Generator,
        steps: int = 300,
    ) -> None:
        """Train the networks of q(z | o) to find the partition."""


@runtime_checkable
class SupportsStart(Protocol):
    """A guide with its own start, which replaces the default one."""

    def start(self, data: CrowdData, generator: torch.Generator) -> None:
        """Set the guide, and its model, to the start of training."""
