"""Adam, faster for parameters that have a long way to go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

# Steps after which rates may change.
_WINDOW = 50
# Shares of the way that a parameter could go: beyond the first it travels, below the second it
# only goes to and fro.
_TRAVELS, _ARRIVED = 0.5, 0.25
_FASTER, _SLOWER = 2.0, 5.0
# In one step at a higher multiple of the first rate, the exponential of a parameter could overflow.
_LARGEST = 1024.0
# Where a parameter was at the beginning of a window: one of the names in the optimizer's state.
_ANCHOR = "anchor"


class PacedAdam(torch.optim.Adam):
    """Adam with a learning rate for every parameter, which grows while the parameter travels.

    Adam moves the elements of a parameter p by at most about its rate r in a step. In n steps from
    p0, the share ``mean |p - p0| / (n r)`` of the way that was possible has been gone. Near the
    optimum, steps to and fro leave about ``1 / sqrt(n)``; a mean that begins at 0 in data around
    170 goes nearly all of it, for thousands of steps. A parameter that goes more than half of it is
    given twice the rate; one that goes less than a quarter has arrived, and comes back to the first
    rate.

    The squares of gradients are averaged over about 20 steps, not 1000: the first gradients of such
    a mean are larger than the later ones by orders of magnitude, and would keep its steps small for
    as long as they are remembered.

    Parameters
    ----------
    parameters
        What is trained.
    lr
        The rate of all parameters at first.

    Examples
    --------
    >>> mean = torch.nn.Parameter(torch.zeros(()))
    >>> optimizer = PacedAdam([mean], lr=0.05)
    >>> for _ in range(900):
    ...     mean.grad = 2 * (mean.detach() - 170)
    ...     optimizer.step()
    >>> abs(mean.item() - 170) < 0.01
    True
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        groups = [
            {"params": [parameter], "first_lr": lr, "window": 0, "travels": False}
            for parameter in parameters
        ]
        super().__init__(groups, lr=lr, betas=(0.9, 0.95), fused=True)

    @property
    def travels(self) -> bool:
        """Whether a parameter still has a long way to go, or comes back to its first rate."""
        return any(
            group["travels"] or group["lr"] > group["first_lr"] for group in self.param_groups
        )

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One step of Adam; after a window of steps, rates may change."""
        loss = super().step(closure)
        for group in self.param_groups:
            parameter = group["params"][0]
            state = self.state[parameter]
            if not state:  # it has had no gradient so far
                continue
            if group["window"] == _WINDOW:
                self._change_rate(group, state[_ANCHOR])
            if group["window"] in (0, _WINDOW):
                state[_ANCHOR], group["window"] = parameter.clone(), 0
            group["window"] += 1
        return loss

    def _change_rate(self, group: dict[str, Any], anchor: Tensor) -> None:
        rate, first = group["lr"], group["first_lr"]
        share = (group["params"][0] - anchor).abs().mean().item() / (_WINDOW * rate)
        # A rate that was lowered stays so.
        group["travels"] = share > _TRAVELS and rate >= first
        if group["travels"]:
            group["lr"] = min(_FASTER * rate, _LARGEST * first)
        elif share < _ARRIVED and rate > first:
            group["lr"] = max(rate / _SLOWER, first)
