"""Draws from many categorical distributions at once.

With Gumbel noise ``-log(-log u)`` added to the logits, the place of the largest is a draw from
their softmax (Gumbel 1954); -inf is never drawn.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor


def draw_categories(logits: Float[Tensor, "*batch category"]) -> Int[Tensor, "*batch"]:
    """Draws with torch's random numbers, given log probabilities up to a constant of each row."""
    # log of an exponential draw is minus Gumbel noise.
    return (logits - torch.empty_like(logits).exponential_().log()).argmax(-1)


def draw_categories_by(
    rng: np.random.Generator, logits: Float[np.ndarray, "*batch category"]
) -> Int[np.ndarray, "*batch"]:
    """The same with the random numbers of a generator of NumPy."""
    return (logits + rng.gumbel(size=logits.shape)).argmax(-1)
