"""The shape a of a gamma or Wishart distribution, from the gap between log mean and mean log.

For ``Lambda ~ Wishart`` with nu = 2 a degrees of freedom in d dimensions,

    log|E[Lambda]| - E[log|Lambda|] = d log a - sum_{i<d} psi(a - i / 2)  =  g_d(a)

which falls from infinity at a = (d - 1) / 2 to zero, like ``d (d + 1) / (4 a)`` for large a.
In one dimension it is ``log a - psi(a)`` of a gamma distribution.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

# Two to six Newton steps reach full precision; see the slope below. Every step squares the error,
# so no further step is needed after one as small as this.
_STEPS = 10
_SMALLEST_STEP = 1e-6
# Smaller gaps are rounding errors of two equal numbers; at this gap the shape is about d (d + 1) /
# 4 divided by it, and the distribution nearly a point.
_SMALLEST_GAP = 1e-9


def multivariate_shape(gap: Float[Tensor, "*batch"], dim: int) -> Float[Tensor, "*batch"]:
    """The a of ``g_d(a) = gap``.

    Parameters
    ----------
    gap
        ``log|E[Lambda]| - E[log|Lambda|]``, nonnegative apart from rounding.
    dim
        d.

    Examples
    --------
    >>> a = torch.tensor(4.0, dtype=torch.float64)
    >>> multivariate_shape(a.log() - torch.digamma(a), 1)
    tensor(4.0000, dtype=torch.float64)
    """
    gap = gap.clamp_min(_SMALLEST_GAP)
    lowest = (dim - 1) / 2
    halves = torch.arange(dim, dtype=gap.dtype, device=gap.device) / 2
    log_excess = (dim * (dim + 1) / (4 * gap)).log()
    for _ in range(_STEPS):
        excess = log_excess.exp()
        shape = lowest + excess
        arguments = shape.unsqueeze(-1) - halves
        value = dim * shape.log() - torch.digamma(arguments).sum(-1)
        slope = dim / shape - torch.polygamma(1, arguments).sum(-1)
        # log g is nearly linear in log excess, so few Newton steps are needed.
        step = (value.clamp_min(_SMALLEST_GAP / 10).log() - gap.log()) * value / (slope * excess)
        log_excess = log_excess - step.clamp(-3.0, 3.0)
        if bool((step.abs() < _SMALLEST_STEP).all()):
            break
    return lowest + log_excess.exp()
