"""Fits that a test stops in the middle of a step; also run as a script, to be killed for real."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from pyro.infer.autoguide import AutoNormal

from pyro_crowdclust import Fitted
from pyro_crowdclust.callbacks import MergeMoves
from pyro_crowdclust.minibatches import AnswerSampling, Batch
from pyro_crowdclust.training import Checkpoint, Trainer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.crowds import (
    amortized_pair,
    crowd,
    graded_crowd,
    graded_pair,
    message_passing_pair,
    plain_pair,
    quiet_fit,
)
from tests.problems import location_guide, location_model


@contextmanager
def in_step(step: int | None, action: Callable[[], None] | None) -> Iterator[None]:
    """Do something when parameters have been changed by a step that is not yet recorded."""
    finish = Trainer.step

    def interrupted(trainer: Trainer, batch: Batch) -> float:
        elbo = finish(trainer, batch)
        if trainer.steps_done - 1 == step:
            action()
        return elbo

    with mock.patch.object(Trainer, "step", interrupted):
        yield


class Draws:
    """A callback with state of its own that uses every source of random numbers."""

    def __init__(self) -> None:
        self.total = torch.zeros(())

    def __call__(self, trainer: Trainer) -> None:
        self.total = self.total + torch.rand(()) + float(np.random.rand())  # noqa: NPY002
        trainer.history[-1]["total"] = self.total.item()

    def state_dict(self) -> dict[str, Any]:
        return {"total": self.total}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.total = state["total"]


FITS: dict[str, tuple[Callable, dict[str, Any]]] = {
    "message passing": (message_passing_pair, {}),
    "amortized": (amortized_pair, {"answer_sampling": AnswerSampling(4)}),
    "full batch": (plain_pair, {"batch_size": None}),
    "grades": (partial(graded_pair, lapsing=True), {"data": graded_crowd()}),
    "autoguide": (lambda: (location_model, AutoNormal(location_model)), {}),
    "pyro.param": (
        lambda: (location_model, location_guide),
        {"optim": partial(torch.optim.SGD, lr=1e-3, momentum=0.9)},
    ),
}


def run(
    kind: str, step: int | None = None, action: Callable[[], None] | None = None, **more: Any
) -> Fitted:
    """Three epochs of a kind of fit, and an action in the middle of a step."""
    make, options = FITS[kind]
    options = {"epochs": 3, "batch_size": 10, "step_size": 0.3, "data": crowd()} | options | more
    if kind == "message passing":
        options["callbacks"] = [MergeMoves(), Draws()]
    np.random.seed(3)  # noqa: NPY002, as users do whose callbacks draw from it
    with in_step(step, action):
        return quiet_fit(*make(), **options)


def _wait_to_be_killed() -> None:
    print("in the middle of a step", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    # Functions and classes are called the same as in the process that goes on.
    from tests.killed_fit import run

    kind, path, step = sys.argv[1:]
    run(kind, int(step), _wait_to_be_killed, checkpoint=Checkpoint(path, every=1))
