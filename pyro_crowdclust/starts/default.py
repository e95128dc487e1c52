"""The start of a fit without ``initialize``."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.starts.principal_components import PrincipalComponentStart


@runtime_checkable
class SupportsStart(Protocol):
    """A guide with its own start, which replaces the default one."""

    def start(self, data: CrowdData, generator: torch.Generator) -> None:
        """Set the guide, and its model, to the start of training."""


def default_start(model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
    """Call ``guide.start(data, generator)`` if it exists, otherwise ``PrincipalComponentStart``."""
    if isinstance(guide, SupportsStart):
        guide.start(data, generator)
    else:
        PrincipalComponentStart()(model, guide, data, generator)
