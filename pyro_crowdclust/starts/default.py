"""The start of a fit without ``initialize``."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.errors import warn
from pyro_crowdclust.protocols import name_of, part_of
from pyro_crowdclust.starts.principal_components import PrincipalComponentStart, SupportsStartAt


@runtime_checkable
class SupportsStart(Protocol):
    """A guide with its own start, which replaces the default one."""

    def start(self, data: CrowdData, generator: torch.Generator) -> None:
        """Set the guide, and its model, to the start of training."""


def default_start(model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
    """Call ``guide.start(data, generator)`` if it exists, otherwise ``PrincipalComponentStart``.

    A guide without a start of its own may be composed of others: if exactly one of these has a
    start, it is started with its own model. If several have, a warning says so.
    """
    found = _with_start(guide)
    if len(found) == 1 and found[0] is not guide:
        guide = found[0]
        model = part_of(guide, "model", nn.Module) or model
    elif len(found) > 1:
        names = " and ".join(name_of(part) for part in found)
        warn(
            f"the guide {name_of(guide)} has several parts with a start, {names}, and begins "
            "without any: start them by initialize=, a function (model, guide, data, generator) "
            "that calls starts.PrincipalComponentStart() with each part and its model"
        )
    if isinstance(guide, SupportsStart):
        guide.start(data, generator)
    else:
        PrincipalComponentStart()(model, guide, data, generator)


def _with_start(part: Any) -> list[Any]:
    """The outermost modules with a start: a guide itself, or parts of it."""
    if isinstance(part, SupportsStart | SupportsStartAt):
        return [part]
    children = part.children() if isinstance(part, nn.Module) else ()
    return [found for child in children for found in _with_start(child)]
