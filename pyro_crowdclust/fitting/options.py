"""The options of a call of ``fit`` as a value."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from pyro.infer.elbo import ELBO

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.minibatches.blocks import AnswerSampling
from pyro_crowdclust.results.further_training import FurtherTraining, UpdateStep
from pyro_crowdclust.training.callback import Callback
from pyro_crowdclust.training.chosen_options import (
    Auto,
    Trained,
    budget_of,
    chosen_options,
    is_auto,
)
from pyro_crowdclust.training.natural_gradient import StepSize
from pyro_crowdclust.training.optimizers import Optimizer
from pyro_crowdclust.training.stopping import Stopping
from pyro_crowdclust.training.trainer import Trainer

_DEFAULT_EPOCHS = 20


@dataclass(frozen=True)
class FitOptions(FurtherTraining):
    """The options of a call of ``fit``, and what is chosen where they leave it to ``fit``.

    Attributes
    ----------
    steps
        What an update does besides: before it trains in reverse order, and then in this order.
    """

    epochs: int | None
    batch_size: int | Auto | None
    optim: Optimizer | Auto
    step_size: float | StepSize | Auto
    elbo: ELBO | None
    stopping: Stopping | Auto
    answer_sampling: AnswerSampling
    dtype: torch.dtype
    callbacks: Sequence[Callback]
    trainer: Callable[..., Trainer] | None
    steps: Sequence[UpdateStep] = ()

    @property
    def of_steps(self) -> dict[str, Any]:
        """The options of the training steps."""
        names = ("optim", "step_size", "elbo", "dtype")
        return {name: getattr(self, name) for name in names}

    @property
    def of_fit(self) -> dict[str, Any]:
        """These options by name, without the steps."""
        names = (field.name for field in dataclasses.fields(self))
        return {name: getattr(self, name) for name in names if name != "steps"}

    @property
    def given(self) -> dict[str, Any]:
        """The options that are not left to ``fit``."""
        return {name: value for name, value in self.of_fit.items() if not is_auto(value)}

    @property
    def is_open(self) -> bool:
        """Whether training ends where the ELBO no longer rises, as nothing else was asked for."""
        return self.epochs is None and is_auto(self.stopping)

    @property
    def ending(self) -> Stopping:
        """The criteria to end training earlier; none if they are left to ``fit``."""
        return Stopping() if isinstance(self.stopping, str) else self.stopping

    def for_training(self, trained: Trained, data: CrowdData) -> Self:
        """The options with everything chosen that was left to ``fit``, except for when to stop."""
        chosen = chosen_options(self.of_fit, trained, data, is_open=self.is_open)
        if not self.is_open:
            has_end = self.epochs is not None or self.ending.steps is not None
            chosen |= {"stopping": self.ending}
            chosen |= {} if has_end else {"epochs": _DEFAULT_EPOCHS}
        return dataclasses.replace(self, **chosen)

    def budget(self, trained: Trained, steps_per_epoch: int) -> float:
        """The largest number of steps."""
        if self.is_open:
            return budget_of(trained, steps_per_epoch)
        return math.inf if self.epochs is None else self.epochs * steps_per_epoch

    def further(self, callbacks: Sequence[Callback], has_networks: bool) -> Self:
        """The options for an update: with networks, a tenth of the epochs, since they are trained.

        Callbacks are those of the fit, with their state.
        """
        epochs = self.epochs
        if has_networks and epochs is not None:
            epochs = math.ceil(epochs / 10)
        trainer = None if self.trainer is Trainer else self.trainer  # None can be saved
        return dataclasses.replace(self, epochs=epochs, callbacks=callbacks, trainer=trainer)
