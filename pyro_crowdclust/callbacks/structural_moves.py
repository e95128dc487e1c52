"""Base of structural moves: a change of the clusters is tried, and kept if the objective rises.

The objective is Pyro's ELBO minus the terms that model and guide add to the loss, so that without
such terms it is the bound. It is computed before and after the change by running model and guide,
and so takes everything into account: components, weights, class table, field, known clusters, point
estimates, outputs of networks, and the resulting q(z).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.inference.loss_terms import LossTerms
from pyro_crowdclust.minibatches.making import full_batch
from pyro_crowdclust.networks.evaluation import evaluating
from pyro_crowdclust.protocols import MovableGuide
from pyro_crowdclust.training.trainer import Trainer

# After this many rejected proposals the others wait for the next epoch.
_MAX_REJECTIONS = 5


class Proposal(NamedTuple):
    """A change of clusters, and of one known class where it concerns only that.

    Attributes
    ----------
    clusters
        The clusters that would change: two to merge, one to empty. Once a cluster is empty, no
        proposal about it is tried in the same epoch.
    label
        Code of the only class that changes its cluster; None: all classes, or none.
    """

    clusters: tuple[int, ...]
    label: int | None = None


def _is_higher(gains: Float[Tensor, " batch"]) -> bool:
    """Whether a gain is positive, and by more than chance where it is an estimate."""
    error = float(gains.std()) / math.sqrt(len(gains)) if len(gains) > 1 else 0.0
    return float(gains.mean()) > 2 * error


class Judge:
    """Tries changes of a training run, and undoes those that lower the objective.

    Where a step uses all data, or there are at most ``sample_size`` items, the objective is that of
    all data. Otherwise it is estimated from minibatches like those of training, with about
    ``sample_size`` items in total and their own random numbers: each is an unbiased estimate of the
    objective per epoch. The same batches and draws of latents are used before and after the change,
    and a gain counts only if it exceeds twice its standard error.

    Parameters
    ----------
    trainer
        The training run.
    sample_size
        Approximate number of items from which the objective is estimated.
    """

    def __init__(self, trainer: Trainer, sample_size: int) -> None:
        self._trainer = trainer
        if trainer.sampler is None or trainer.data.num_items <= sample_size:
            batches = [full_batch(trainer.data)]
        else:
            batches = trainer.sampler.sample(sample_size, seed=trainer.epochs_done)
        self._batches = [batch.to(trainer.device, trainer.dtype) for batch in batches]

    def objective(self) -> Float[Tensor, " batch"]:
        """The objective by every batch, with the same draws in every call."""
        trainer, values = self._trainer, []
        with torch.no_grad(), torch.random.fork_rng():
            for seed, batch in enumerate(self._batches):
                torch.manual_seed(seed)
                with LossTerms() as terms:
                    loss = trainer.elbo.loss(trainer.model, trainer.guide, batch)
                values.append(-float(loss + terms.total()))
        return torch.tensor(values, dtype=torch.float64)

    def attempt(self, change: Callable[[], object], refits: int = 0) -> float | None:
        """Make a change if it raises the objective; returns the gain, or None if it was undone.

        Parameters
        ----------
        change
            Changes the guide in place.
        refits
            Number of natural steps of length 1 after the change, and without it for comparison:
            conjugate posteriors follow the items that have moved.
        """
        trainer = self._trainer
        before = {name: tensor.detach().clone() for name, tensor in trainer.tensors().items()}
        rivals = [self.objective()]
        if refits:
            self._refit(refits)
            rivals.append(self.objective())
            trainer.set_tensors(before)
        with torch.no_grad():
            change()
        self._refit(refits)
        after = self.objective()
        if all(_is_higher(after - rival) for rival in rivals):
            return float((after - rivals[0]).mean())
        trainer.set_tensors(before)
        return None

    def _refit(self, steps: int) -> None:
        """Natural steps of length 1 on the batches; networks and point estimates stay fixed."""
        trainer = self._trainer
        if trainer.natural is None:
            return
        for _ in range(steps):
            with torch.enable_grad(), torch.random.fork_rng():
                for seed, batch in enumerate(self._batches):
                    torch.manual_seed(seed)
                    loss = trainer.elbo.differentiable_loss(trainer.model, trainer.guide, batch)
                    (loss / len(self._batches)).backward()
            trainer.natural.set_step_size(1.0)
            trainer.natural.step()
            for tensor in trainer.tensors().values():
                tensor.grad = None


@dataclass
class StructuralMoves(ABC):
    """A callback of ``fit`` that proposes changes of the clusters after an epoch.

    Attributes
    ----------
    first_epoch, last_epoch
        Moves are made at the ends of these epochs and all between.
    sample_size
        Where steps use minibatches, the approximate number of items to estimate the gain of a move.
    moves
        ``(epoch, cluster, ..., gain)`` of every move made; the gain is that of the objective.
        Clusters are numbered as in the guide, not by size as in a result.
    """

    first_epoch: int = 1
    last_epoch: float = math.inf
    sample_size: int = 4096
    moves: list[tuple[float, ...]] = field(default_factory=list)

    # Key of the history for the number of moves in an epoch.
    column = "moves"
    # See ``Judge.attempt``.
    refits = 0

    @abstractmethod
    def proposals(self, trainer: Trainer) -> Sequence[Proposal]:
        """Changes that may raise the objective, the most promising first."""

    @abstractmethod
    def change(self, guide: MovableGuide, proposal: Proposal) -> tuple[int, ...]:
        """Make a change; returns the clusters for ``moves``, the emptied one last."""

    def state_dict(self) -> dict[str, list]:
        """What a checkpoint keeps: the moves so far."""
        return {"moves": list(self.moves)}

    def load_state_dict(self, state: dict[str, list]) -> None:
        """Go on after the moves of a checkpoint."""
        self.moves[:] = state["moves"]

    def __call__(self, trainer: Trainer) -> None:
        """Try proposals; adds their number under the key ``column`` to the epoch's history row.

        Raises
        ------
        ValueError
            If the guide lacks a verb of ``MovableGuide``.
        """
        row = trainer.history[-1]
        row[self.column] = 0
        in_time = self.first_epoch <= row["epoch"] <= self.last_epoch
        if not in_time or not trainer.data.has_answers:
            return
        if not isinstance(trainer.guide, MovableGuide):
            raise ValueError(
                f"{type(self).__name__} needs a guide with the methods infer, rate_statistics, "
                f"merge and empty, but {type(trainer.guide).__name__} lacks one of them: leave "
                "the callback out, or write them as the protocol MovableGuide describes"
            )
        with evaluating(trainer.model, trainer.guide):
            self._move(trainer)

    def _move(self, trainer: Trainer) -> None:
        """Try proposals until none raises the objective."""
        row = trainer.history[-1]
        judge: Judge | None = None
        rejected: set[Proposal] = set()
        emptied: set[int] = set()
        proposals = self.proposals(trainer)
        while len(rejected) < _MAX_REJECTIONS:
            left = (
                one for one in proposals if one not in rejected and emptied.isdisjoint(one.clusters)
            )
            proposal = next(left, None)
            if proposal is None:
                return
            judge = judge or Judge(trainer, self.sample_size)
            record: tuple[int, ...] = ()

            def change(proposal: Proposal = proposal) -> None:
                nonlocal record
                record = self.change(trainer.guide, proposal)

            gain = judge.attempt(change, self.refits)
            if gain is None:
                rejected.add(proposal)
                continue
            self.moves.append((row["epoch"], *record, gain))
            row[self.column] += 1
            emptied.add(record[-1])
            proposals = self.proposals(trainer)
