"""Checks of the options of ``fit``, also before a search that will call it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from pyro.infer import JitTrace_ELBO, JitTraceEnum_ELBO, JitTraceMeanField_ELBO
from pyro.infer.elbo import ELBO

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.errors import check_whole
from pyro_crowdclust.minibatches.blocks import AnswerSampling
from pyro_crowdclust.minibatches.devices import check_device
from pyro_crowdclust.training.argument_checks import check_data
from pyro_crowdclust.training.checkpoint import Checkpoint
from pyro_crowdclust.training.natural_gradient import check_step_size
from pyro_crowdclust.training.optimizers import check_optim
from pyro_crowdclust.training.stopping import Stopping


def check_values(data: CrowdData, options: Mapping[str, Any]) -> None:
    """Raise the ``ValueError`` of ``fit`` about its options, also before a search for a model.

    Parameters
    ----------
    data
        The data to be fitted.
    options
        Options of ``fit`` by name, any of them; others may have any value.
    """
    check_data(data)
    for name, check in _CHECKS.items():
        if name in options:
            check(options[name])


def _check_count(name: str, value: object) -> None:
    if value is not None:
        check_whole(name, value, least=1)


def _check_dtype(dtype: object) -> None:
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"dtype is {dtype}, but must be torch.float32 or torch.float64")


def _check_step_size(step_size: Any) -> None:
    if not callable(step_size):
        check_step_size(step_size)


def _check_checkpoint(checkpoint: object) -> None:
    if checkpoint is not None and not isinstance(checkpoint, str | os.PathLike | Checkpoint):
        raise ValueError(
            f"checkpoint is {checkpoint!r}, but must be the path of a file, or a Checkpoint(path)"
        )


def _check_trainer(trainer: object) -> None:
    _check_called("trainer", trainer, "model, guide, data and a sampler, as the class Trainer is")


def _check_initialize(initialize: object) -> None:
    if initialize is not None:
        given = "model, guide, data and a generator, such as PrincipalComponentStart()"
        _check_called("initialize", initialize, given)


def _check_kind(name: str, kind: type, value: object) -> None:
    if not isinstance(value, kind):
        raise ValueError(
            f"{name} is {value!r}, but must be an object of {kind.__name__}, or left out"
        )


def _check_called(name: str, value: object, given: str) -> None:
    if not callable(value):
        raise ValueError(f"{name} is {value!r}, but must be callable with {given}")


def check_elbo(elbo: object) -> None:
    """Raise a ``ValueError`` unless the bound is None or one of Pyro's with a loss."""
    if isinstance(elbo, JitTrace_ELBO | JitTraceEnum_ELBO | JitTraceMeanField_ELBO):
        raise ValueError(
            f"elbo is a {type(elbo).__name__}, which compiles functions of tensors, but a batch is "
            "not a tensor: leave elbo out, or pass the bound of this name without Jit"
        )
    if elbo is None or (isinstance(elbo, ELBO) and hasattr(elbo, "differentiable_loss")):
        return
    if isinstance(elbo, ELBO):
        raise ValueError(
            f"elbo is a {type(elbo).__name__}, which has no differentiable_loss for a step: pass "
            "one that has, such as Trace_ELBO, TraceEnum_ELBO or TraceMeanField_ELBO"
        )
    if isinstance(elbo, type):
        raise ValueError(
            f"elbo is the class {elbo.__name__}, but must be an object of it: pass "
            f"{elbo.__name__}(max_plate_nesting=1)"
        )
    raise ValueError(
        f"elbo is a {type(elbo).__name__}, but must be a bound of Pyro's, such as "
        "pyro.infer.Trace_ELBO()"
    )


def check_callbacks(callbacks: object) -> None:
    """Raise a ``ValueError`` unless callbacks are a list of callable objects."""
    if not isinstance(callbacks, Sequence) or isinstance(callbacks, str):
        raise ValueError(
            f"callbacks is a {type(callbacks).__name__}, but must be a list: put it into one, "
            "callbacks=[...]"
        )
    for number, callback in enumerate(callbacks):
        if isinstance(callback, type):
            raise ValueError(
                f"callbacks[{number}] is the class {callback.__name__}, but must be an object of "
                f"it: call {callback.__name__}(...)"
            )
        if not callable(callback):
            raise ValueError(
                f"callbacks[{number}] is a {type(callback).__name__}, but must be callable with "
                "the Trainer, after every epoch"
            )


_CHECKS: dict[str, Callable[[Any], None]] = {
    "elbo": check_elbo,
    "callbacks": check_callbacks,
    "seed": partial(check_whole, "seed"),
    "dtype": _check_dtype,
    "epochs": partial(_check_count, "epochs"),
    "batch_size": partial(_check_count, "batch_size"),
    "step_size": _check_step_size,
    "device": check_device,
    "stopping": partial(_check_kind, "stopping", Stopping),
    "answer_sampling": partial(_check_kind, "answer_sampling", AnswerSampling),
    "optim": check_optim,
    "trainer": _check_trainer,
    "checkpoint": _check_checkpoint,
    "initialize": _check_initialize,
}
