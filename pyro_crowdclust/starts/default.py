"""Where a fit begins that is given no start."""

from __future__ import annotations

from typing import Any

import torch

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.protocols import SupportsStart
from pyro_crowdclust.starts.principal_components import PrincipalComponentStart


def default_start(model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
    """The guide's own ``start(data, generator)`` if it has one, else the principal components."""
    if isinstance(guide, SupportsStart):
        guide.start(data, generator)
    else:
        PrincipalComponentStart()(model, guide, data, generator)
