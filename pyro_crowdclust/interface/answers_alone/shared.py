"""What both kinds of answers share: the options of their fits, and random parts to hold out."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.recipe import Recipe

EPOCHS = 120


def recipe_of_draws(model: Any, guide: Any, data: CrowdData) -> Recipe:
    """Model and guide of a partition that is drawn, with the options of the fit."""
    options = {"epochs": EPOCHS, "batch_size": None, "step_size": 0.2, "dtype": torch.float64}
    return Recipe(model, guide, data, options)


def random_parts(
    number: int,
    fewest: int,
    share: float,
    max_parts: int,
    generator: torch.Generator,
    begin: int = 0,
) -> list[Bool[Tensor, " unit"]]:
    """Random parts of the units, as many as together have ``fewest`` units, from ``begin`` on."""
    order = torch.rand(number, generator=generator).argsort().argsort()
    num_parts = min(round(1 / share), number)
    part = order * num_parts // number
    needed = math.ceil(fewest / (share * number))
    end = min(begin + min(needed, max_parts), num_parts)
    return [part == place for place in range(begin, end)]
