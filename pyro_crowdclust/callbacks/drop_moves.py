"""Drop moves: empty components that hold items, but hardly any of those that workers spoke of."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.minibatches.batch import answered_batch
from pyro_crowdclust.training.trainer import Trainer, assignments_by_features, spaced_items


def unsupported(
    heard: Float[Tensor, " cluster"], expected: Float[Tensor, " cluster"], support: float
) -> Float[Tensor, " cluster"]:
    """Which clusters hold too few answered items to be more than odd images.

    If the answered items are a random part of all, a cluster of share f holds about ``f n`` of
    the n answered ones. It is unsupported if it holds less than ``support`` of that number and
    chance does not explain it: the shortfall is over four standard deviations, ``sqrt(f n)``.

    Examples
    --------
    >>> import torch
    >>> unsupported(torch.tensor([90.0, 2.0, 0.0]), torch.tensor([80.0, 50.0, 3.0]), 0.25)
    tensor([False,  True, False])
    """
    shortfall = expected - heard
    return (heard < support * expected) & (shortfall > 4 * expected.sqrt())


@dataclass
class DropMoves:
    """A callback of ``fit``: after an epoch, empty components that the answers do not support.

    A broad component can collect what fits no other, of every human cluster a little. Workers
    put such items with the others of their kind, so once the answers are heard hardly an answered
    item is left in it, while items that nobody was asked about stay. They are freed for the next
    best cluster. The move assumes that the answered items were drawn at random from all items.

    The guide must have the verbs ``infer`` and ``empty``.

    Attributes
    ----------
    first_epoch, last_epoch
        Moves are made at the ends of these epochs and all between.
    support
        A supported component holds at least this fraction of the answered items expected in it.
    sample_size
        About this many items tell the share of every component.
    moves
        ``(epoch, emptied component)`` of every move made.
    """

    first_epoch: int = 2
    last_epoch: float = math.inf
    support: float = 0.25
    sample_size: int = 4096
    moves: list[tuple[int, int]] = field(default_factory=list)

    def state_dict(self) -> dict[str, list]:
        """What a checkpoint keeps: the moves so far."""
        return {"moves": list(self.moves)}

    def load_state_dict(self, state: dict[str, list]) -> None:
        """Go on after the moves of a checkpoint."""
        self.moves[:] = state["moves"]

    @torch.no_grad()
    def __call__(self, trainer: Trainer) -> None:
        """Judge and make the moves; the epoch's history row gets the key ``drops``."""
        row, data, guide = trainer.history[-1], trainer.data, trainer.guide
        row["drops"] = 0
        in_time = self.first_epoch <= row["epoch"] <= self.last_epoch
        if not in_time or data.answers is None:
            return
        answered = answered_batch(data).to(trainer.device, trainer.dtype)
        heard = guide.infer(answered).assignments.double().sum(0)
        alone = assignments_by_features(trainer, data.annotated_items).sum(0)
        chosen = spaced_items(data.num_items, self.sample_size)
        share = assignments_by_features(trainer, chosen).mean(0)
        expected = len(answered.items) * share
        # Messages can carry a whole human cluster from one component to another for a moment;
        # by features alone its answered items are still where they belong.
        verdict = unsupported(heard, expected, self.support) & (alone < expected / 2)
        for cluster in verdict.nonzero():
            guide.empty(int(cluster))
            self.moves.append((row["epoch"], int(cluster)))
            row["drops"] += 1
