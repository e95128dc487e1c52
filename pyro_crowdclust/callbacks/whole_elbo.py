"""The ELBO of all data in the history, in addition to the average over minibatches."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pyro_crowdclust.minibatches.making import full_batch
from pyro_crowdclust.networks.evaluation import evaluating
from pyro_crowdclust.training.trainer import Trainer


@dataclass(frozen=True)
class WholeElbo:
    """A callback of ``fit``: after an epoch, the ELBO of all data as ``whole_elbo``.

    The ELBO of a minibatch has its own q(z) for the items in it. For items that are in one
    minibatch only this makes no difference, and the average over minibatches estimates the ELBO of
    all data. An item on several pages, which are drawn separately, gets another q(z) for each of
    them; the average is then *above* the ELBO of all data, and may be above the log evidence. With
    all answers together every item has one q(z), and the value is a bound: exactly without latents
    behind networks, and up to one draw of each with them. It takes a pass over all data at once.

    Attributes
    ----------
    every
        Interval between values, in epochs; the other epochs have NaN.
    """

    every: int = 1

    def __call__(self, trainer: Trainer) -> None:
        """Add the value to the epoch's history row."""
        row = trainer.history[-1]
        row["whole_elbo"] = float("nan")
        if row["epoch"] % self.every:
            return
        batch = full_batch(trainer.data).to(trainer.device, trainer.dtype)
        with (
            torch.no_grad(),
            evaluating(trainer.model, trainer.guide),
            torch.random.fork_rng(),
        ):
            row["whole_elbo"] = -float(trainer.elbo.loss(trainer.model, trainer.guide, batch))
