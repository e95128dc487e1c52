"""u(x) of a Gaussian site under a normal-inverse-Wishart component, with its gradient by hand.

The value of the site is (m, vec R); its statistics are

    u = (m, vec M, 1, 1),  M = m m^T + R R^T = E[x x^T].

With (g, vec G) the gradient of the first two parts and S = G + G^T,

    dM = dm m^T + m dm^T + dR R^T + R dR^T   =>   grad m = g + S m,  grad R = S R.

Autograd needs some 30 operations for what are two small products here.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.families.gaussian import Moments


class MomentStatistics(torch.autograd.Function):
    """Map the value (m, vec R) of a Gaussian site to (m, vec(m m^T + R R^T), 1, 1)."""

    @staticmethod
    def forward(ctx: Any, value: Float[Tensor, "*batch moments"]) -> Float[Tensor, "*batch size"]:
        """Return (m, vec(m m^T + R R^T), 1, 1) of each value."""
        ctx.save_for_backward(value)
        mean, root = Moments.of(value)
        second = torch.addcmul(root @ root.mT, mean.unsqueeze(-1), mean.unsqueeze(-2))
        ones = value.new_ones(*value.shape[:-1], 2)
        return torch.cat([mean, second.flatten(-2), ones], -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        mean, root = Moments.of(ctx.saved_tensors[0])
        of_mean, of_second = Moments.of(gradient[..., :-2])
        symmetric = of_second + of_second.mT
        mean_grad = of_mean + (symmetric @ mean.unsqueeze(-1)).squeeze(-1)
        return Moments(mean_grad, symmetric @ root).flat()
