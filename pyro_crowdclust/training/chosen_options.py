"""Options of ``fit`` that are left out: chosen by the data, and by what is to be trained."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import nn

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.protocols import SupportsPartition, modules_of, part_of, unwrapped
from pyro_crowdclust.supervision.supervision import Supervision
from pyro_crowdclust.training.isolation import is_small
from pyro_crowdclust.training.natural_gradient import RobbinsMonro
from pyro_crowdclust.training.optimizers import Optimizer
from pyro_crowdclust.training.paced_adam import PacedAdam

Auto = Literal["auto"]

adam: Optimizer = partial(torch.optim.Adam, lr=1e-3, fused=True)
# Modules of torch that define layers, and not what holds any parameters.
_LAYERS = re.compile(r"torch\.nn\.modules\.(?!module|container)")
# Options that are left out where epochs or a rule to stop are given.
_OF_GIVEN_LENGTH = {"batch_size": 128, "step_size": 0.01, "optim": adam}
# The largest number of steps, of networks and without, or of epochs if these are more steps.
_MAX_STEPS, _MAX_EPOCHS = {True: 2000, False: 6000}, 20


@dataclass(frozen=True)
class Trained:
    """What a fit trains.

    Attributes
    ----------
    has_networks
        Whether model or guide have layers of torch with parameters.
    ties_items
        Whether model or guide tie items together so that minibatches cannot have answers: a field
        of links does, and draws of partitions, whose every step must know all answers.
    """

    has_networks: bool
    ties_items: bool

    @classmethod
    def of(cls, model: Any, guide: Any) -> Trained:
        """What these two have."""
        supervision = part_of(model, "supervision", Supervision)
        return cls(
            has_networks=any(map(_is_layer, modules_of(model, guide))),
            ties_items=isinstance(unwrapped(guide), SupportsPartition)
            or (supervision is not None and supervision.couples_items),
        )


def _is_layer(module: nn.Module) -> bool:
    of_torch = any(_LAYERS.match(kind.__module__) for kind in type(module).__mro__)
    return of_torch and any(one.requires_grad for one in module.parameters(recurse=False))


def chosen_options(
    options: dict[str, Any], trained: Trained, data: CrowdData, *, is_open: bool
) -> dict[str, Any]:
    """``batch_size``, ``step_size`` and ``optim``, chosen where they are "auto".

    Small data without networks are taken at once, since minibatches would only add noise; natural
    steps are then half of the way to the optimum. Minibatches need steps that become smaller.
    Plain Pyro parameters have few dimensions and may have a long way to go, so that they need
    larger steps than networks do, and still larger ones on their way.

    Parameters
    ----------
    options
        The options as they were given.
    trained
        What is trained.
    data
        The training data.
    is_open
        Whether training ends where the ELBO no longer rises; otherwise the options do not depend on
        the data.
    """
    chosen = _for_convergence(trained, data) if is_open else _OF_GIVEN_LENGTH
    names = _OF_GIVEN_LENGTH
    return {name: chosen[name] if is_auto(options[name]) else options[name] for name in names}


def budget_of(trained: Trained, steps_per_epoch: int) -> int:
    """The largest number of steps where training ends when the ELBO no longer rises."""
    return max(_MAX_STEPS[trained.has_networks], _MAX_EPOCHS * steps_per_epoch)


def _for_convergence(trained: Trained, data: CrowdData) -> dict[str, Any]:
    options: dict[str, Any]
    if (trained.ties_items and data.has_answers) or (is_small(data) and not trained.has_networks):
        options = {"batch_size": None, "step_size": 0.5}
    elif trained.has_networks:
        options = {"batch_size": 128, "step_size": RobbinsMonro(0.1, delay=200.0)}
    else:
        options = {"batch_size": 1024, "step_size": RobbinsMonro(0.5, delay=20.0)}
    optim: Optimizer = partial(PacedAdam, lr=0.05)
    if trained.has_networks:
        optim = partial(torch.optim.Adam, lr=3e-3, fused=True)
    return {**options, "optim": optim}


def is_auto(value: Any) -> bool:
    """Whether an option is left to ``fit``."""
    return isinstance(value, str) and value == "auto"
