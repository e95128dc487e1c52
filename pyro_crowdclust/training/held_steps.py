"""Natural-gradient steps at given q of the items, for the start of training."""

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
    """A guide (a module) whose q(z) can be set.

    Attributes
    ----------
    posteriors
        The posteriors of its global sites, by name.
    held
        Logits of q(z) to use instead of those that the guide would infer; None to infer them.
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
    """Natural steps of all conjugate posteriors on one batch, each at given q(z).

    Parameters
    ----------
    model, guide
        Model and guide, trained in place.
    batch
        The data of all steps.
    held
        Logits of q(z) for every step; None for a step in which the guide infers them.
    step_size
        Step size of the natural gradients.
    optimizer
        Optimizer of other parameters, if there are any.

    Returns
    -------
    The negative ELBO before the last step; infinite without steps.
    """
    posteriors = [q for q in guide.posteriors.values() if isinstance(q, ConjugatePosterior)]
    natural, elbo, last = NaturalGradient(posteriors, step_size), PlainELBO(), math.inf
    try:
        for logits in held:
            guide.held = logits
            guide.zero_grad()
            # The sites are checked when training begins.
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
