"""Emissions of three features, from whose coordinates other transforms go on."""

from __future__ import annotations

import torch

from pyro_crowdclust.emissions import Identity, Standardized
from pyro_crowdclust.transforms import PowerTransformed


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
