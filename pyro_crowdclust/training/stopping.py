"""When training ends, beside the number of epochs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TypeVar

from pyro_crowdclust.protocols import FittedModel


class Ending(StrEnum):
    """How training ended: the word that a reason to stop begins with.

    Examples
    --------
    >>> Ending.BUDGET.is_of(f"{Ending.BUDGET}: 90 steps in 3 epochs")
    True
    """

    CONVERGED = "converged"
    BUDGET = "budget"
    INTERRUPTED = "interrupted"
    NOT_FINITE = "not finite"

    def is_of(self, stop_reason: str) -> bool:
        """Whether training ended so, by ``Fitted.stop_reason``."""
        return stop_reason.startswith(self)


_Fit = TypeVar("_Fit", bound=FittedModel)


def is_interrupted(result: FittedModel) -> bool:
    """Whether Ctrl-C ended training."""
    return Ending.INTERRUPTED.is_of(result.stop_reason)


def whole(result: _Fit) -> _Fit:
    """The fit, unless Ctrl-C ended it, which then goes on: half of it says nothing of others.

    Raises
    ------
    KeyboardInterrupt
        If it did.
    """
    if is_interrupted(result):
        raise KeyboardInterrupt
    return result


@dataclass(frozen=True)
class Stopping:
    """What ends training before its last epoch; whichever is reached first.

    Attributes
    ----------
    tolerance, patience
        As converged, once the best ELBO per item of ``patience`` epochs is less than ``tolerance``
        nats above the best before them. None: train to the budget.
    steps
        So many steps.
    max_time
        Begin no epoch that would end later than this, if it took as long as the last one. Where
        this ends training, the answer depends on the speed of the machine.

    Raises
    ------
    ValueError
        For numbers below 1 of epochs or steps.

    Examples
    --------
    >>> stopping = Stopping(tolerance=0.1, patience=2)
    >>> stopping.has_converged([-9.0, -5.0, -4.99, -4.98])
    True
    """

    tolerance: float | None = None
    patience: int = 5
    steps: int | None = None
    max_time: timedelta | None = None

    def __post_init__(self) -> None:
        for name, value in {"patience": self.patience, "steps": self.steps}.items():
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}, but must be at least 1")

    def has_converged(self, elbos_per_item: Sequence[float]) -> bool:
        """Whether the last epochs brought too little."""
        if self.tolerance is None or len(elbos_per_item) <= self.patience:
            return False
        last, before = elbos_per_item[-self.patience :], elbos_per_item[: -self.patience]
        return max(last) - max(before) < self.tolerance

    @property
    def seconds(self) -> float:
        """``max_time`` in seconds."""
        return math.inf if self.max_time is None else self.max_time.total_seconds()
