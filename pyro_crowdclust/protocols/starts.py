"""What a start must be, and what a guide may be that begins at one."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData


class Start(Protocol):
    """Where training begins: ``fit(initialize=...)``, given copies of model and guide."""

    def __call__(self, model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
        """Move parameters and posteriors; all chance is from the generator."""


class SiteStatistics(Protocol):
    """What a start knows about the global sites, such as a partition of some items."""

    def statistics(self, model: Any) -> dict[str, Tensor]:
        """Expected sufficient statistics that its items add to sites of the model, by name."""


@runtime_checkable
class SupportsStartAt(Protocol):
    """A guide that can begin at a partition of the items."""

    def start_at(self, start: SiteStatistics) -> None:
        """Move the global sites to where the statistics put them."""


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
        """Train the networks of q(z | o) to find it."""


@runtime_checkable
class SupportsStart(Protocol):
    """A guide with a start of its own, in place of the default one."""

    def start(self, data: CrowdData, generator: torch.Generator) -> None:
        """Move to where training is to begin."""
