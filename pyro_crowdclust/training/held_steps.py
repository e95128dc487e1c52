"""Natural steps with q of the items held in place, for where training begins."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Protocol

import pyro
import torch
from torch import Tensor

from pyro_crowdclust.distributions.priors import ConjugatePosterior
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.training.elbo import PlainELBO
from pyro_crowdclust.training.natural_gradient import NaturalGradient


class HoldingGuide(Protocol):
    """A guide, a module, whose q(z) can be held.

    Attributes
    ----------
    posteriors
        Of its global sites, by name.
    held
        Logits that q(z) has in place of those that the guide would infer; None to infer them.
    """

    posteriors: Any
    held: Tensor | None

    def __call__(self, batch: Batch) -> None: ...
    def zero_grad(self) -> None: ...


def held_steps(
    model: Any,
    guide: HoldingGuide,
    batch: Batch,
    held: Iterable[Tensor | None],
    step_size: float,
    optimizer: torch.optim.Optimizer | None = None,
) -> float:
    """Steps of all conjugate posteriors on one batch, each at given q(z).

    Parameters
    ----------
    model, guide
        What is trained, in place.
    batch
        All data that the steps are of.
    held
        Logits of q(z) in every step; None of a step in which the guide infers them.
    step_size
        Of the natural gradients.
    optimizer
        Steps other parameters.

    Returns
    -------
    The negative ELBO that the last step began with; infinite without steps.
    """
    posteriors = [q for q in guide.posteriors.values() if isinstance(q, ConjugatePosterior)]
    natural, elbo, last = NaturalGradient(posteriors, step_size), PlainELBO(), math.inf
    try:
        for logits in held:
            guide.held = logits
            guide.zero_grad()
            # Training checks the sites.
            with pyro.validation_enabled(False):
                loss = elbo.differentiable_loss(model, guide, batch)
            loss.backward()
            natural.step()
            if optimizer is not None:
                optimizer.step()
            last = float(loss.detach())
    finally:
        guide.held = None
        guide.zero_grad()
    return last
