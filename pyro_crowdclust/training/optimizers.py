"""Checks of the argument ``optim``, which makes the optimizer of the networks' parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from pyro.optim import PyroOptim
from torch import nn

Optimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

_REMEDY = "pass a function that makes one of torch's, such as partial(torch.optim.Adam, lr=0.05)"


def check_optim(optim: object) -> None:
    """Raise a ``ValueError`` unless ``optim`` can be called with parameters."""
    if isinstance(optim, PyroOptim):
        raise ValueError(
            f"optim is an optimizer of Pyro, which works with Pyro's SVI only: {_torch_form(optim)}"
        )
    if not callable(optim):
        raise ValueError(
            f"optim is {optim!r}, but must be callable with the parameters of networks"
        )


def _torch_form(optim: PyroOptim) -> str:
    """Advice to pass the torch optimizer that an optimizer of Pyro wraps, if there is one."""
    kind, options = optim.pt_optim_constructor, optim.pt_optim_args
    name = getattr(kind, "__name__", "")
    if getattr(torch.optim, name, None) is not kind or callable(options):
        return _REMEDY
    given = "".join(f", {option}={value!r}" for option, value in options.items())
    return f"pass partial(torch.optim.{name}{given})"


def optimizer_of(parameters: list[nn.Parameter], optim: Optimizer) -> torch.optim.Optimizer:
    """The optimizer that ``optim`` makes of these parameters.

    Raises
    ------
    ValueError
        If ``optim`` makes something else, or an optimizer that evaluates the loss itself.
    """
    made = optim(parameters)
    # Schedulers of learning rates have step and state_dict, too.
    if not all(hasattr(made, part) for part in ("step", "state_dict", "param_groups")):
        raise ValueError(
            f"optim made a {type(made).__name__} of the parameters, but must make an optimizer: "
            f"{_REMEDY}"
        )
    if isinstance(made, torch.optim.LBFGS):
        raise ValueError(
            "optim made an LBFGS, which evaluates the loss several times in a step, but every "
            f"minibatch has another loss: {_REMEDY}"
        )
    return made
