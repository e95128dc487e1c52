"""Splits of the supervision into a part for the fit and a held-out part for the score."""

from __future__ import annotations

import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.holding_out.known_classes import KnownSplit, known_split
from pyro_crowdclust.interface.holding_out.links import LinkSplit, link_split
from pyro_crowdclust.interface.holding_out.pages import PlacementSplit, placement_split
from pyro_crowdclust.interface.holding_out.pairs import PairSplit, pair_split

HeldOut = PairSplit | PlacementSplit | KnownSplit | LinkSplit


def split(data: CrowdData, share: float, generator: torch.Generator) -> HeldOut | None:
    """Hold out the supervision of a share of the items; None if there is too little.

    Held out are placements if pages are sorted, otherwise answers about pairs; without answers,
    links, or known classes if there are fewer than 10 links in a part. Which of these are held out
    is the same for every draw.
    """
    if data.placements is not None:
        return placement_split(data, share, generator)
    if data.answers is not None:
        return pair_split(data, share, generator)
    return link_split(data, share, generator) or known_split(data, share, generator)
