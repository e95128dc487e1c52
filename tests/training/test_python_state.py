"""Whether objects are what they were."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from pyro_crowdclust.inference import LocalSolver
from pyro_crowdclust.training.python_state import PythonState


def some_part() -> nn.Module:
    part = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    part.solver = LocalSolver()
    part.weights = {"pairs": 1.0, "items": (2, SimpleNamespace(rate=0.5))}
    part.steps = [1, 2]
    return part


def hooked(part):
    part[0].register_forward_hook(lambda *_: None)


CHANGES = {
    "part.training": nn.Module.eval,
    "part.0.weight": lambda part: setattr(part[0], "weight", nn.Parameter(torch.zeros(3, 2))),
    "part.1.running_mean": lambda part: setattr(part[1], "running_mean", torch.zeros(3)),
    "part.solver": lambda part: setattr(part, "solver", LocalSolver(exchanges=1)),
    "part.weights.pairs": lambda part: part.weights.update(pairs=2.0),
    "part.weights.items[1].rate": lambda part: setattr(part.weights["items"][1], "rate", 0.4),
    "part.steps": lambda part: part.steps.append(3),
    "part.steps[1]": lambda part: part.steps.__setitem__(1, True),
    "part": lambda part: setattr(part, "more", 1),
    "part.0._forward_hooks": hooked,
}


@pytest.mark.parametrize("where", CHANGES)
def test_every_change_is_found(where):
    part = some_part()
    state = PythonState({"part": part})
    assert state.changed() is None
    CHANGES[where](part)
    assert state.changed() == where


def test_other_numbers_in_a_tensor_and_equal_numbers_are_no_change():
    part = some_part()
    state = PythonState({"part": part})
    with torch.no_grad():
        part[0].weight.add_(1.0)
    part[1](torch.randn(5, 3))
    part.weights["pairs"] = float("1.0")
    assert state.changed() is None


def test_what_may_change():
    part = some_part()
    state = PythonState({"part": part}, but_for={id(part): ["steps", "solver"]})
    part.steps, part.solver = None, None
    assert state.changed() is None
    part.eval()
    assert state.changed() == "part.training"


def test_what_refers_to_itself_ends():
    part = some_part()
    part.weights["all"] = [part.weights]
    assert PythonState({"part": part, "copy": copy.copy(part)}).changed() is None
