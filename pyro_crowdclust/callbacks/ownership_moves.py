"""Moves of components between clusters: which of them the answers call one."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pyro_crowdclust.distributions.summaries import num_in_use
from pyro_crowdclust.inference.owners import move_owners
from pyro_crowdclust.networks.evaluation import evaluating
from pyro_crowdclust.protocols import posteriors_of
from pyro_crowdclust.training.trainer import Trainer


@dataclass(frozen=True)
class OwnershipMoves:
    """A callback of ``fit``: after an epoch, components move to where the answers put them.

    For a model with an ``Ownership``. Natural steps move every q(c_k) given all others at once,
    which can neither join nor part groups of components; this solves for them together.
    """

    @torch.no_grad()
    def __call__(self, trainer: Trainer) -> None:
        """Move, if there are answers; the epoch's history row counts clusters in use.

        Raises
        ------
        ValueError
            If the guide has no posterior of which clusters own the components.
        """
        posteriors = posteriors_of(trainer.guide)
        if posteriors is None or "owners" not in posteriors:
            raise ValueError(
                "OwnershipMoves moves components between the clusters that own them, of which "
                f"{type(trainer.guide).__name__} has no posterior: give the model an "
                "ownership=Ownership(K), or leave the callback out"
            )
        answered = trainer.answered
        if answered is None:
            return
        guide = trainer.guide
        with evaluating(guide):
            move_owners(guide, answered)
        components = trainer.model.weights.mean(posteriors["weights"].natural_parameters)
        weights = components @ posteriors["owners"].mean()
        trainer.history[-1]["clusters_in_use"] = num_in_use(weights)
