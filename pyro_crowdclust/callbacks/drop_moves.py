"""Drop moves: empty components with many items, but hardly any that have answers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust.callbacks.structural_moves import Proposal, StructuralMoves
from pyro_crowdclust.minibatches.making import items_alone, needed_batch
from pyro_crowdclust.protocols import MovableGuide
from pyro_crowdclust.training.trainer import Trainer

# A supported component contains at least this fraction of the answered items expected in it.
_SUPPORT = 0.25


def unsupported(
    observed: Float[Tensor, " cluster"], expected: Float[Tensor, " cluster"], support: float
) -> Bool[Tensor, " cluster"]:
    """Which clusters contain so few answered items that they only collect outliers.

    If the answered items are a random part of all, a cluster with share f contains about ``f n`` of
    the n answered ones. It is unsupported if it contains less than ``support`` of that number and
    chance does not explain this: the shortfall exceeds four standard deviations, ``sqrt(f n)``.

    Examples
    --------
    >>> import torch
    >>> unsupported(torch.tensor([90.0, 2.0, 0.0]), torch.tensor([80.0, 50.0, 3.0]), 0.25)
    tensor([False,  True, False])
    """
    shortfall = expected - observed
    return (observed < support * expected) & (shortfall > 4 * expected.sqrt())


@dataclass
class DropMoves(StructuralMoves):
    """A callback of ``fit``: after an epoch, empty components that the answers do not support.

    A broad component can collect items that fit no other, a few of every human cluster. Workers put
    such items into their own clusters, so that once the answers are used, hardly any answered item
    is left in it, while items without answers stay. Emptying it frees them for the next best
    cluster. This assumes that the answered items are a random sample of all items. A move is
    accepted if the whole objective is higher after the other components have taken in the freed
    items (two natural steps) than after the same steps without the move.

    The guide must have the verbs of ``MovableGuide``.

    Attributes
    ----------
    first_epoch, last_epoch
        Moves are made at the ends of these epochs and all between.
    sample_size
        Approximate number of items from which the share of every component, and, where steps use
        minibatches, the gain of a move is estimated.
    moves
        ``(epoch, emptied component, gain)`` of every move made.
    """

    first_epoch: int = 2

    column = "drops"
    refits = 2

    @torch.no_grad()
    def proposals(self, trainer: Trainer) -> list[Proposal]:
        """Clusters that the answers do not support, the one with the largest shortfall first."""
        data, guide = trainer.data, trainer.guide
        answered = needed_batch(data).to(trainer.device, trainer.dtype)
        paired = guide.infer(answered).assignments.double()[: answered.num_paired]
        observed = paired.sum(0)
        alone = _assignments_by_features(trainer, data.annotated_items).sum(0)
        chosen = _spaced_items(data.num_items, self.sample_size)
        share = _assignments_by_features(trainer, chosen).mean(0)
        expected = len(paired) * share
        # Messages can temporarily move a whole human cluster from one component to another; by
        # features alone its answered items are still assigned correctly.
        verdict = unsupported(observed, expected, _SUPPORT) & (alone < expected / 2)
        shortfall = expected - observed
        clusters = sorted(
            verdict.nonzero().squeeze(1).tolist(), key=lambda cluster: -shortfall[cluster]
        )
        return [Proposal((cluster,)) for cluster in clusters]

    def change(self, guide: MovableGuide, proposal: Proposal) -> tuple[int, ...]:
        """Empty the cluster."""
        guide.empty(*proposal.clusters)
        return proposal.clusters


def _assignments_by_features(
    trainer: Trainer, items: Int[Tensor, " item"]
) -> Float[Tensor, "item cluster"]:
    """q(z) of some training items without their answers, in float64."""
    batch = items_alone(trainer.data, items)
    return trainer.guide.infer(batch.to(trainer.device, trainer.dtype)).assignments.double()


def _spaced_items(num_items: int, sample_size: int) -> Int[Tensor, " item"]:
    """About ``sample_size`` evenly spaced positions: a fair sample of data sorted by class, too."""
    return torch.arange(0, num_items, max(1, num_items // sample_size))
