"""Moves of workers' rates that are point estimates to where the clusters put them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pyro_crowdclust.distributions.pairs import agreement
from pyro_crowdclust.networks.evaluation import evaluating
from pyro_crowdclust.protocols import SupportsInfer, SupportsSetRates
from pyro_crowdclust.training.trainer import Trainer


@dataclass(frozen=True)
class RateMoves:
    """A callback of ``fit``: after an epoch, point estimates of the workers' rates follow q(z).

    Points step with the networks, at a rate that suits these: from 0.8 to 0.98 takes some thousand
    steps. Given q(z) of the items that workers answered about, the posterior of a rate is
    conjugate (Luo et al. 2018, eq. 28, 29), and its mean is where the point goes: with s the
    probability that both ends of an answer are in one cluster, and (a, b) the pseudo-counts of the
    prior, ``alpha = (a + sum s L) / (a + b + sum s)`` and likewise for beta.

    The guide must have the verbs of ``SupportsInfer`` and ``SupportsSetRates``.
    """

    @torch.no_grad()
    def __call__(self, trainer: Trainer) -> None:
        """Move the rates, if there are answers.

        Raises
        ------
        ValueError
            If the guide has not these verbs.
        """
        if trainer.data.answers is None:
            return
        guide = trainer.guide
        if not (isinstance(guide, SupportsInfer) and isinstance(guide, SupportsSetRates)):
            raise ValueError(
                "RateMoves moves the rates of workers by the verbs infer and set_rates of a "
                f"guide, and {type(guide).__name__} has not both of them: leave the callback out"
            )
        batch = trainer.answered
        assert batch is not None  # there are answers
        with evaluating(guide):
            assignments = guide.infer(batch).assignments.double()
        same = agreement(assignments[: batch.num_paired], batch.left, batch.right)
        guide.set_rates(same, batch)
