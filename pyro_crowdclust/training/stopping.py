"""Criteria by which training ends before its last epoch, and reasons why it ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TypeVar

from pyro_crowdclust.errors import check_whole
from pyro_crowdclust.protocols import FittedModel


class Ending(StrEnum):
    """How training ended: the first words of ``Fitted.stop_reason``.

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
        """Whether training ended in this way, according to ``Fitted.stop_reason``."""
        return stop_reason.startswith(self)


_Fit = TypeVar("_Fit", bound=FittedModel)


def is_interrupted(result: FittedModel) -> bool:
    """Whether Ctrl-C ended training."""
    return Ending.INTERRUPTED.is_of(result.stop_reason)


def uninterrupted(result: _Fit) -> _Fit:
    """The fit itself, if training was not interrupted: a part of a fit cannot be compared.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C ended training.
    """
    if is_interrupted(result):
        raise KeyboardInterrupt
    return result


def interrupted_too_early() -> KeyboardInterrupt:
    """What Ctrl-C raises before a first fit of several is finished."""
    return KeyboardInterrupt(
        "Ctrl-C came before a first fit was finished, so that there is no result yet"
    )


@dataclass(frozen=True)
class Stopping:
    """Criteria that end training before its last epoch; the first one that is met counts.

    Attributes
    ----------
    tolerance, patience
        Training has converged if the best ELBO per item of the last ``patience`` epochs is less
        than ``tolerance`` nats above the best before them. None: train to the budget.
    steps
        The largest number of steps.
    max_time
        Begin no epoch that would end later than this if it took as long as the last one. If this
        ends training, the result depends on the speed of the machine.

    Raises
    ------
    ValueError
        If ``patience`` or ``steps`` is no whole number or below 1, or ``tolerance`` is below 0.

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
            if value is not None:
                check_whole(name, value, least=1)
        if self.tolerance is not None and not self.tolerance >= 0:
            raise ValueError(f"tolerance is {self.tolerance}, but must be at least 0")

    def has_converged(self, elbos_per_item: Sequence[float]) -> bool:
        """Whether the last ``patience`` epochs improved the ELBO by less than ``tolerance``."""
        if self.tolerance is None or len(elbos_per_item) <= self.patience:
            return False
        last, before = elbos_per_item[-self.patience :], elbos_per_item[: -self.patience]
        return max(last) - max(before) < self.tolerance

    @property
    def seconds(self) -> float:
        """``max_time`` in seconds."""
        return math.inf if self.max_time is None else self.max_time.total_seconds()
