"""Variable elimination: log-densities with named axes, whose discrete sites are summed out.

A density is a product of factors. An axis is either a plate, over which factors are multiplied, or
the values of a site, over which their product is summed. A site in a plate has a value for every
member of it, so its values are summed out before the product over the plate is taken:

    prod_n sum_v f(z, v, n)   and not   sum_v prod_n f(z, v, n).

Unlike Pyro's contraction this adds logarithms of factors before it exponentiates, so that factors
do not underflow unless their product does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Factor(NamedTuple):
    """A log-density.

    Attributes
    ----------
    log_density
        Its values.
    axes
        Its axes: the plate with this name, or the values of the site with this number.
    """

    log_density: Tensor
    axes: tuple[str | int, ...]

    def within(self, plates: Collection[str]) -> Factor:
        """The product over all other plates."""
        outside = [axis for axis in self.axes if isinstance(axis, str) and axis not in plates]
        return self.reduced(outside, torch.sum) if outside else self

    def reduced(self, axes: Sequence[str | int], reduce: Callable[..., Tensor]) -> Factor:
        """Sum out some axes with a function of torch."""
        dims = [self.axes.index(axis) for axis in axes]
        left = tuple(axis for axis in self.axes if axis not in axes)
        return Factor(reduce(self.log_density, dims), left)

    def aligned(self, axes: Sequence[str | int]) -> Tensor:
        """With all of these axes in this order; missing ones have size one."""
        own = [self.axes.index(axis) for axis in axes if axis in self.axes]
        log_density = self.log_density.permute(own)
        for dim, axis in enumerate(axes):
            log_density = log_density if axis in self.axes else log_density.unsqueeze(dim)
        return log_density


def product(factors: Sequence[Factor]) -> Factor:
    """All factors at all values of all their sites."""
    axes = tuple(dict.fromkeys(axis for factor in factors for axis in factor.axes))
    total = torch.zeros((), dtype=torch.float64)
    for factor in factors:
        total = total + factor.aligned(axes)
    return Factor(total, axes) if factors else Factor(total, ())


def summed_out(factors: Sequence[Factor], site: int, plates: Collection[str]) -> list[Factor]:
    """The same density without a site in these plates, and in no others.

    Sites in plates nested inside these must have been summed out before.
    """
    tied = [factor.within(plates) for factor in factors if site in factor.axes]
    others = [factor for factor in factors if site not in factor.axes]
    return [*others, product(tied).reduced([site], torch.logsumexp)] if tied else others
