"""Gaussian potentials r(o), the output of recognition networks."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class GaussianPotential(NamedTuple):
    """``r(o)``: ``<r(o), t(x)> = h^T x - x^T diag(lambda) x / 2``; Luo et al. 2018, eq. 9.

    Attributes
    ----------
    linear
        h = lambda m.
    precision
        lambda, at least zero.
    """

    linear: Float[Tensor, "item dim"]
    precision: Float[Tensor, "item dim"]

    def natural_parameters(self) -> Float[Tensor, "item natural"]:
        """(h, vec(-diag(lambda) / 2)), as the family ``Gaussian`` packs them."""
        quadratic = (self.precision / -2).diag_embed()
        return torch.cat([self.linear, quadratic.flatten(-2)], -1)
