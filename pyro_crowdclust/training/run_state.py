"""The state of a training run, everything that the rest of it depends on, and its restoration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from pyro_crowdclust.files.checks import (
    check_count,
    check_kind,
    check_number,
    check_shape,
    check_tensors,
)
from pyro_crowdclust.files.description import NotDescribable, describe
from pyro_crowdclust.protocols import SupportsState
from pyro_crowdclust.training.callback import Callback
from pyro_crowdclust.training.copies import check_same_tensors
from pyro_crowdclust.training.random_states import random_states, set_random_states
from pyro_crowdclust.training.settling import Settling
from pyro_crowdclust.training.trainer import Position, Trainer

# Parts of the state of torch's optimizers that have the shape of the parameter.
_LIKE_THE_PARAMETER = frozenset(
    [
        *("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "square_avg", "grad_avg"),
        "anchor",  # of PacedAdam
    ]
)


def check_state(state: Any) -> None:
    """Raise a ``ValueError`` unless this can be the state of a training run of some model."""
    check_kind("its content", state, dict)
    for name, text in check_kind("fingerprint", state["fingerprint"], dict).items():
        check_kind(f"fingerprint.{name}", text, str)
    check_number("seconds", state["seconds"])
    of_run = check_kind("trainer", state["trainer"], dict)
    steps = check_count("steps_done", of_run["steps_done"])
    check_count("epochs_done", of_run["epochs_done"])
    for row in check_kind("history", of_run["history"], list):
        check_kind("a row of the history", row, dict)
    check_tensors("parameters", of_run["parameters"])
    if of_run["annealed_to"] is not None:
        check_number("annealed_to", of_run["annealed_to"])
    if of_run["settling"] is not None:
        check_kind("settling", of_run["settling"], dict)
    if of_run["position"] is not None:
        position = check_kind("position", of_run["position"], dict)
        check_same_tensors(check_tensors("before", position["before"]), of_run["parameters"])
        elbos = check_kind("elbos", position["elbos"], list)
        check_count("the number of steps of the epoch", len(elbos), most=steps)
        for elbo in elbos:
            check_number("an ELBO", elbo)
        check_number("seconds", position["seconds"])
    if of_run["halvings"] is not None:
        check_count("halvings", of_run["halvings"])


def state_of(
    trainer: Trainer, callbacks: Sequence[Callback], settling: Settling | None
) -> dict[str, Any]:
    """Everything that the rest of a training run depends on."""
    position = trainer.position
    return {
        "steps_done": trainer.steps_done,
        "epochs_done": trainer.epochs_done,
        "annealed_to": trainer.annealed_to,
        "history": trainer.history,
        "position": None if position is None else vars(position),
        "parameters": trainer.tensors(),
        "optim": _optimizer_state(trainer.optim),
        "halvings": None if trainer.natural is None else trainer.natural.num_halvings,
        "sampler": None if trainer.sampler is None else trainer.sampler.generator.get_state(),
        "random": random_states(trainer.device),
        "callbacks": [
            callback.state_dict() if isinstance(callback, SupportsState) else None
            for callback in callbacks
        ],
        "settling": None if settling is None else settling.state_dict(),
    }


def restore(
    trainer: Trainer,
    callbacks: Sequence[Callback],
    settling: Settling | None,
    state: dict[str, Any],
) -> None:
    """Set a new training run to a state that ``state_of`` returned.

    Only one of the two runs may have a ``settling``, since their budgets may differ.
    """
    check_same_tensors(state["parameters"], trainer.tensors())
    trainer.set_tensors(state["parameters"])
    trainer.steps_done, trainer.epochs_done = state["steps_done"], state["epochs_done"]
    trainer.history[:] = state["history"]
    trainer.position = None if state["position"] is None else Position(**state["position"])
    if state["annealed_to"] is not None:
        trainer.set_epoch(state["annealed_to"])
    _restore_optimizer(trainer.optim, state["optim"])
    if trainer.natural is not None:
        trainer.natural.num_halvings = state["halvings"]
    if trainer.sampler is not None:
        trainer.sampler.generator.set_state(state["sampler"])
    for callback, of_callback in zip(callbacks, state["callbacks"], strict=True):
        if of_callback is not None and isinstance(callback, SupportsState):
            callback.load_state_dict(of_callback)
    if settling is not None and state["settling"] is not None:
        settling.load_state_dict(state["settling"])
    set_random_states(state["random"], trainer.device)


def _optimizer_state(optimizer: torch.optim.Optimizer | None) -> dict[str, Any] | None:
    if optimizer is None:
        return None
    groups = [
        {name: value for name, value in group.items() if name != "params" and _is_plain(value)}
        for group in optimizer.param_groups
    ]
    return {"state": optimizer.state_dict()["state"], "groups": groups}


def _is_plain(value: Any) -> bool:
    try:
        describe(value, {})
    except NotDescribable:
        return False
    return True


def _restore_optimizer(
    optimizer: torch.optim.Optimizer | None, state: dict[str, Any] | None
) -> None:
    if optimizer is None or state is None:
        return
    whole = optimizer.state_dict()
    parameters = [part for group in optimizer.param_groups for part in group["params"]]
    for number, of_parameter in check_kind("optim.state", state["state"], dict).items():
        check_count("a parameter's number", number, most=len(parameters) - 1)
        for name, value in check_kind(f"optim.state.{number}", of_parameter, dict).items():
            if name in _LIKE_THE_PARAMETER and value is not None:
                parameter = parameters[number]
                check_shape(
                    f"{name} of parameter {number}", value, parameter.dtype, parameter.shape
                )
    whole["state"] = state["state"]
    for group, options in zip(whole["param_groups"], state["groups"], strict=True):
        group.update(options)
    optimizer.load_state_dict(whole)
