"""Emissions of three features, from whose coordinates other transforms go on."""

from __future__ import annotations

import torch

from pyro_crowdclust.emissions import Identity, Standardized
from pyro_crowdclust.transforms import (
    Clipped,
    EqualLength,
    Filled,
    Landmarks,
    OneHot,
    PowerTransformed,
    Projected,
    Selected,
    WithAtoms,
    Within,
)


def tensor(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


EMISSIONS = {
    "identity": Identity,
    "standardized": lambda: Standardized(tensor(1.0, -2.0, 0.0), tensor(0.5, 3.0, 1.0)),
    "powers": lambda: PowerTransformed(
        tensor(0.0, 0.4, 2.0),
        tensor(0.1, -0.2, 0.3),
        tensor(2.0, 0.3, 1.0),
        tensor(-0.5, 0.2, 0.0),
        tensor(0.7, 1.0, 3.0),
    ),
}

# What goes on from the coordinates of one of them.
TRANSFORMS = {
    "itself": lambda inner: inner,
    "selected": lambda inner: Selected(inner, torch.tensor([True, False, True])),
    "atoms": lambda inner: WithAtoms(inner, tensor(0.5, torch.nan, -1.0)),
    "codes": lambda inner: OneHot(inner, [0, 2, 0]),
    "projected": lambda inner: Projected(
        inner, tensor(0.0, 0.0, 0.0), torch.eye(3, dtype=torch.float64)[:2], 1.0, 0.1
    ),
    "filled": lambda inner: Filled(
        inner, tensor(0.5, 0.0, -1.0), torch.eye(3, dtype=torch.float64)[:2], 0.3
    ),
    "clipped": lambda inner: Clipped(inner, tensor(-0.5, -1.0, 0.0), tensor(0.5, 0.0, torch.inf)),
    "within": lambda inner: Within(inner, tensor(-0.5, -1.0, 0.0), tensor(0.5, 0.0, torch.inf)),
    "length": lambda inner: EqualLength(inner, tensor(0.2, 0.0, -1.0), 2.5),
    "landmarks": lambda inner: Landmarks(inner, torch.eye(3, dtype=torch.float64), 0.7),
}
