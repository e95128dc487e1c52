"""What may step the parameters of networks: an optimizer of torch's, or one like it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from pyro.optim import PyroOptim
from torch import nn

Optimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

_REMEDY = "pass what makes one of torch's, such as partial(torch.optim.Adam, lr=0.05)"


def check_optim(optim: object) -> None:
    """Raise a ``ValueError`` unless ``optim`` may make an optimizer of parameters."""
    if isinstance(optim, PyroOptim):
        raise ValueError(
            f"optim is an optimizer of Pyro's, which is for its SVI: {_torch_form(optim)}"
        )
    if not callable(optim):
        raise ValueError(
            f"optim is {optim!r}, but must be callable with the parameters of networks"
        )


def _torch_form(optim: PyroOptim) -> str:
    """How to ask torch for what an optimizer of Pyro's does, as far as that can be said."""
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
        If it is none, or one that evaluates the loss itself.
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
            "optim made an LBFGS, which evaluates the loss several times in a step, where every "
            f"minibatch has another: {_REMEDY}"
        )
    return made
