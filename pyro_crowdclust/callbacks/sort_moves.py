"""Sort moves: put the clusters in the order that suits the prior of their weights."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from pyro_crowdclust.training.trainer import Trainer


@dataclass
class SortMoves:
    """A callback of ``fit``: after an epoch, sort the clusters if that raises the ELBO.

    Under stick-breaking weights clusters are not exchangeable: earlier sticks are expected to be
    larger, and a large cluster that stands late pays for all the sticks before it (Kurihara,
    Welling, Teh 2007). All else in the model is the same in any order, so the change of the ELBO
    is that of the log evidence of the weights. Weights that like all orders the same stay as they
    are.

    The guide must have the verbs ``preferred_order`` and ``reorder``. A move changes the numbers
    of the clusters.

    Attributes
    ----------
    moves
        ``(epoch, change of the ELBO)`` of every move made.
    """

    moves: list[tuple[int, float]] = field(default_factory=list)

    @torch.no_grad()
    def __call__(self, trainer: Trainer) -> None:
        """Judge and make the move; the epoch's history row gets the key ``sorted``."""
        row, guide = trainer.history[-1], trainer.guide
        row["sorted"] = 0
        order, change = guide.preferred_order()
        # Of clusters as good as equal, rounding would decide, and numbers would change for nothing.
        if change > 1e-6:
            guide.reorder(order)
            self.moves.append((row["epoch"], change))
            row["sorted"] = 1
