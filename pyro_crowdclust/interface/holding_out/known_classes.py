"""Splits that hold out known classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.distributions import WorkerSummary
from pyro_crowdclust.interface.holding_out.parts import MIN_PROBABILITY, has_fewer, some
from pyro_crowdclust.results import known_class_probabilities

# With fewer known classes on either side of a split, these say nothing.
MIN_KNOWN = 10


@dataclass(frozen=True)
class KnownSplit:
    """Data without the known classes of some items, and those classes.

    Attributes
    ----------
    data
        All items, with the classes that are not held out.
    item
        Positions of the items whose classes are held out.
    classes
        Codes of their classes.
    """

    data: CrowdData
    item: Int[Tensor, " held"]
    classes: Int[Tensor, " held"]

    def sentence(self, score: float) -> str:
        """A score in words."""
        return f"classes of held-out items are predicted at {score:.3f} nats an item"

    @property
    def chance(self) -> float:
        """Mean log-probability by the shares of the classes that are not held out."""
        known = self.data.needed_known
        counts = torch.bincount(known[known >= 0], minlength=self.data.num_known_classes) + 1.0
        return float((counts / counts.sum())[self.classes].log().mean())

    def log_probability(
        self, result: Fitted, workers: WorkerSummary | None = None
    ) -> Float[np.ndarray, " held"]:
        """``log p(y)`` of every held-out class, by q(z) and the class table."""
        probabilities = known_class_probabilities(result)[self.item.numpy(), self.classes.numpy()]
        return np.log(probabilities.clip(MIN_PROBABILITY))


def known_split(data: CrowdData, share: float, generator: torch.Generator) -> KnownSplit | None:
    """Hold out a share of the known classes; None if one part would have fewer than 10."""
    if data.known is None:
        return None
    labelled = (data.known >= 0).nonzero().squeeze(1)
    out = some(len(labelled), share, generator)
    return None if has_fewer(MIN_KNOWN, out, ~out) else _without(data, labelled[out])


def known_folds(data: CrowdData, number: int, generator: torch.Generator) -> list[KnownSplit]:
    """Hold out every known class once, in this many folds with about equal shares of the classes.

    The only label of a class is never held out, as nothing could predict it. Empty if fewer than 10
    labels are left. Items without a label do not matter: some of the items have the folds of all,
    if they are in the same order and have all labels.
    """
    known = data.known
    if known is None:
        return []
    order = (known >= 0).nonzero().squeeze(1)
    order = order[torch.randperm(len(order), generator=generator)]
    order = order[known[order].argsort(stable=True)]
    order = order[known[order].bincount()[known[order]] > 1]
    if len(order) < MIN_KNOWN:
        return []
    fold = torch.arange(len(order)) % number
    return [_without(data, order[fold == one]) for one in range(number)]


def _without(data: CrowdData, items: Int[Tensor, " held"]) -> KnownSplit:
    kept = data.needed_known.index_fill(0, items, -1)
    return KnownSplit(data.with_parts(known=kept), items, data.needed_known[items])
