"""Splits that hold out links."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.data import Links
from pyro_crowdclust.distributions import WorkerSummary
from pyro_crowdclust.interface.holding_out.pairs import together
from pyro_crowdclust.interface.holding_out.parts import MIN_PROBABILITY, has_fewer, some


@dataclass(frozen=True)
class LinkSplit:
    """Data without some of the links, and those links.

    Attributes
    ----------
    data
        All items, with the links that are not held out.
    held_out
        The held-out links.
    """

    data: CrowdData
    held_out: Links

    @property
    def item(self) -> Int[Tensor, " link"]:
        """One of the two items of every link."""
        return self.held_out.left

    def sentence(self, score: float) -> str:
        """A score in words."""
        return f"held-out links are predicted at {score:.3f} nats a link"

    @property
    def chance(self) -> float:
        """Mean log-probability by the share of must-links among those that are not held out."""
        links = self.data.links
        assert links is not None  # as some are not held out
        return _by_share(links.must, self.held_out.must)

    def log_probability(
        self, result: Fitted, workers: WorkerSummary | None = None
    ) -> Float[np.ndarray, " link"]:
        """``log s`` of every held-out must-link and ``log (1 - s)`` of every cannot-link.

        s is the probability that both items share a cluster.
        """
        same = np.clip(together(result, self.held_out), MIN_PROBABILITY, 1 - MIN_PROBABILITY)
        return np.log(np.where(self.held_out.must.numpy(), same, 1 - same))


def _by_share(kept: Bool[Tensor, " kept"], held_out: Bool[Tensor, " held"]) -> float:
    """Mean log-probability of yes and no by the share of yes among those that are not held out."""
    share = float((kept.sum() + 1) / (len(kept) + 2))
    return float(torch.where(held_out, share, 1 - share).log().mean())


def link_split(data: CrowdData, share: float, generator: torch.Generator) -> LinkSplit | None:
    """Hold out a share of the links; None if one part would have fewer than 10."""
    links = data.links
    if links is None:
        return None
    out = some(links.num_links, share, generator)
    if has_fewer(10, out, ~out):
        return None
    held, kept = (Links(links.left[one], links.right[one], links.must[one]) for one in (out, ~out))
    return LinkSplit(data.with_parts(links=kept), held)
