"""Ownership moves: components move between clusters according to the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.distributions.summaries import num_in_use
from pyro_crowdclust.inference.owners import move_owners
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.networks.evaluation import evaluating
from pyro_crowdclust.protocols import posteriors_of
from pyro_crowdclust.training.trainer import Trainer

# In so many epochs components move so far in a step that its assignments are no longer theirs.
_FIRST_EPOCHS = 5


@runtime_checkable
class KeepsAssignments(Protocol):
    """A guide that keeps what it inferred in the last step."""

    def assignments_in_step(self, batch: Batch) -> Float[Tensor, "item cluster"] | None:
        """E[z] of the items of a batch in the last step; None if this did not infer all of them."""


@dataclass(frozen=True)
class OwnershipMoves:
    """A callback of ``fit``: after an epoch, components move to the best clusters by the answers.

    For a model with an ``Ownership``. Natural steps update every q(c_k) at the same time given all
    others, which can neither join nor split groups of components; this callback solves for all c
    together, given new assignments of all items, or those of the step if the first epochs are over
    and it had all items.
    """

    @torch.no_grad()
    def __call__(self, trainer: Trainer) -> None:
        """Move, if there is evidence; adds the number of clusters in use to the history row.

        Raises
        ------
        ValueError
            If the guide has no posterior q(c) of ownership.
        """
        posteriors = posteriors_of(trainer.guide)
        if posteriors is None or "owners" not in posteriors:
            raise ValueError(
                "OwnershipMoves moves components between clusters, but "
                f"{type(trainer.guide).__name__} has no posterior of which cluster each component "
                "belongs to: give the model an ownership=Ownership(K), or leave the callback out"
            )
        answered = trainer.answered
        if answered is None:
            return
        guide = trainer.guide
        found = None
        if trainer.epochs_done > _FIRST_EPOCHS and isinstance(guide, KeepsAssignments):
            found = guide.assignments_in_step(answered)
        with evaluating(guide):
            move_owners(guide, answered, found)
        components = trainer.model.weights.mean(posteriors["weights"].natural_parameters)
        weights = components @ posteriors["owners"].mean()
        trainer.history[-1]["clusters_in_use"] = num_in_use(weights)
