"""What people said of items, kept out of a fit: what a user wants to know beforehand."""

from __future__ import annotations

import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.choosing.held_out_known import KnownSplit, known_split
from pyro_crowdclust.interface.choosing.held_out_links import LinkSplit, link_split
from pyro_crowdclust.interface.choosing.held_out_pages import PlacementSplit, placement_split
from pyro_crowdclust.interface.choosing.held_out_pairs import Split, pair_split

HeldOut = Split | PlacementSplit | KnownSplit | LinkSplit


def split(data: CrowdData, share: float, generator: torch.Generator) -> HeldOut | None:
    """Hold out what is said of a share of the items; None if too little is left.

    Placements where pages are sorted, or answers about pairs. Without answers links, or known
    classes where there are too few links, and both parts must have 10.
    """
    if data.placements is not None:
        return placement_split(data, share, generator)
    if data.answers is not None:
        return pair_split(data, share, generator)
    return link_split(data, share, generator) or known_split(data, share, generator)
