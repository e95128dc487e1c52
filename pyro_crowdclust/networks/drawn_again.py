"""Networks whose weights every fit draws again."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from pyro_crowdclust.protocols import SupportsDrawParameters


def _drawn_networks(*roots: Any) -> list[Any]:
    """Networks in these modules whose weights every fit draws again, parts before the whole."""
    modules = [m for root in roots if isinstance(root, nn.Module) for m in root.modules()]
    parts_first = dict.fromkeys(reversed(modules))
    return [module for module in parts_first if isinstance(module, SupportsDrawParameters)]


def cast_networks(model: Any, guide: Any, dtype: torch.dtype) -> None:
    """Give the networks whose weights a fit draws the precision of their input features."""
    for network in _drawn_networks(model, guide):
        network.to(dtype)


def reset_networks(model: Any, guide: Any) -> None:
    """Draw the weights of these networks again."""
    # A network is drawn after its parts, so that it can override their weights.
    for network in _drawn_networks(model, guide):
        network.draw_parameters()
