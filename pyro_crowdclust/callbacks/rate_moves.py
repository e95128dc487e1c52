"""Rate moves: set point estimates of the workers' rates to their posterior mean given q(z)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.distributions.pairs import agreement
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.networks.evaluation import evaluating
from pyro_crowdclust.protocols import SupportsInfer
from pyro_crowdclust.training.trainer import Trainer


@runtime_checkable
class SupportsSetRates(Protocol):
    """A guide whose workers' rates are point estimates: for the callback ``RateMoves``."""

    def set_rates(self, same: Float[Tensor, " pair"], batch: Batch) -> None:
        """Set the rates to their optimum, given P(same) of each answered pair."""


@dataclass(frozen=True)
class RateMoves:
    """A callback of ``fit``: after an epoch, point estimates of the workers' rates follow q(z).

    Point estimates are stepped together with the networks, at a learning rate that suits these:
    from 0.8 to 0.98 takes about a thousand steps. Given q(z) of the answered items, the posterior
    of a rate is conjugate (Luo et al. 2018, eq. 28, 29), and the point estimate is set to its mean:
    with s the probability that both items of an answer are in one cluster, and (a, b) the
    pseudo-counts of the prior, ``alpha = (a + sum s L) / (a + b + sum s)`` and likewise for beta.

    The guide must have the verbs of ``SupportsInfer`` and ``SupportsSetRates``.
    """

    @torch.no_grad()
    def __call__(self, trainer: Trainer) -> None:
        """Move the rates, if there are answers.

        Raises
        ------
        ValueError
            If the guide lacks one of these verbs.
        """
        if trainer.data.answers is None:
            return
        guide = trainer.guide
        if not (isinstance(guide, SupportsInfer) and isinstance(guide, SupportsSetRates)):
            raise ValueError(
                "RateMoves needs a guide with the methods infer and set_rates, but "
                f"{type(guide).__name__} lacks one of them: leave the callback out"
            )
        batch = trainer.answered
        assert batch is not None  # there are answers
        with evaluating(guide):
            assignments = guide.infer(batch).assignments.double()
        same = agreement(assignments[: batch.num_paired], batch.left, batch.right)
        guide.set_rates(same, batch)
