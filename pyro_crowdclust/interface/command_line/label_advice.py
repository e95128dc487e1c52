"""Advice about class labels."""

from __future__ import annotations

import torch

from pyro_crowdclust.data.tables import listed
from pyro_crowdclust.interface.class_labels.constant_workers import say_nothing
from pyro_crowdclust.results import Fitted

# So many workers are named.
_NAMED = 3


def about_labels(result: Fitted) -> list[str]:
    """Advice where workers always give the same label, whatever the item."""
    if result.data.class_labels is None:
        return []
    codes = torch.where(say_nothing(result.data))[0].numpy()
    if not len(codes):
        return []
    names = listed(list(result.data.worker_ids[codes]), _NAMED)
    return [
        "some workers always give the same label, whatever the item, which says nothing about it "
        f"(in workers: {names}): leave their labels out, or ask them again"
    ]
