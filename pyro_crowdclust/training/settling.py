"""Training until the ELBO no longer rises, and whether it still rose when training ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyro_crowdclust.training.paced_adam import PacedAdam
from pyro_crowdclust.training.trainer import Trainer

# Fewer epochs do not tell a rise from noise.
_MIN_EPOCHS = 8
# Nats per item that are no rise.
_TOLERANCE = 1e-4
# Nats per item that are a rise to speak of.
_CLEAR = 0.01
# Every fall divides the learning rate by this.
_FALL = 5.0


def rise_of(elbos: Sequence[float]) -> tuple[float, float]:
    """The rise of the mean from the third quarter of the epochs to the last, and its error.

    With w epochs in a quarter, the standard error is ``sqrt(2 v / w)``, where the variance v of an
    epoch is half the mean square of the difference of two successive ones: a slow rise adds little
    to it.

    Examples
    --------
    >>> rise_of([0.0, 4.0, 6.0, 7.0, 8.0, 8.0, 10.0, 10.0])[0]
    2.0
    """
    quarter = len(elbos) // 4
    last = np.asarray(elbos[-2 * quarter :])
    rise = last[quarter:].mean() - last[:quarter].mean()
    return float(rise), float(np.sqrt(np.square(np.diff(last)).mean() / quarter))


def still_rises(elbos_per_item: Sequence[float]) -> bool:
    """Whether the last quarter of the epochs has a clearly higher ELBO than the one before.

    A rise is clear if it is twice its standard error, 1 % of the whole rise, and .01 nats per item
    or 15 % of the whole rise. The latter is from the median of the first quarter on, as the first
    epochs can be lower by orders of magnitude.

    Examples
    --------
    >>> still_rises([float(epoch) for epoch in range(20)])
    True
    >>> still_rises([0.0, 9.0, *[10.0, 10.1] * 9])
    False
    """
    if len(elbos_per_item) < _MIN_EPOCHS:
        return False
    rise, error = rise_of(elbos_per_item)
    first = np.median(elbos_per_item[: len(elbos_per_item) // 4])
    whole = float(abs(elbos_per_item[-1] - first))
    return rise > max(2 * error, 0.01 * whole, min(_CLEAR, 0.15 * whole))


@dataclass
class Settling:
    """A callback that lowers the learning rate where the ELBO no longer rises, and then ends.

    The ELBO no longer rises if its mean over the last quarter of the epochs since the last fall is
    not above that over the quarter before, and no parameter has a long way to go. With an optimizer
    whose noise hides a rise, it must have been so for as many epochs as a quarter has: looked at
    after every epoch, a noisy rise is sometimes a fall. Natural steps in minibatches become smaller
    by themselves, and do not wait. At the latest, the rate falls after 3/4 and after 7/8 of the
    budget: at a high rate parameters jump around the optimum. If the ELBO clearly rose until then,
    it is flat only because the rate is low.

    Attributes
    ----------
    budget
        The largest number of steps.
    falls
        How many times the rate of ``optim`` is still to fall.
    least
        Steps before the first fall, and between falls.
    since
        The epoch after which the rate is what it is now.
    is_settled
        Whether the ELBO no longer rises at the last rate.
    flat
        For how many epochs the ELBO has not risen.
    was_rising
        Whether the rate fell because of the budget while the ELBO rose.
    """

    budget: float
    falls: int = 2
    least: int = 100
    since: int = 0
    flat: int = 0
    is_settled: bool = False
    was_rising: bool = False

    def __call__(self, trainer: Trainer) -> None:
        """Look at the ELBO after an epoch."""
        has_rate = trainer.optim is not None and self.falls > 0
        is_late = has_rate and trainer.steps_done >= self.budget * (1 - 0.5 ** (4 - self.falls))
        is_flat = self._count_flat(trainer)
        if not is_late and not is_flat:
            return
        self.was_rising |= not is_flat and still_rises(trainer.elbos_per_item[self.since :])
        self.is_settled = not has_rate and not self.was_rising
        if trainer.optim is not None and has_rate:
            self.falls -= 1
            self.since, self.flat = len(trainer.history), 0
            for group in trainer.optim.param_groups:
                group["lr"] /= _FALL

    def _count_flat(self, trainer: Trainer) -> bool:
        """Count the epoch if the ELBO does not rise; whether it was so for long enough."""
        if isinstance(trainer.optim, PacedAdam) and trainer.optim.travels:
            return False
        elbos = trainer.elbos_per_item[self.since :]
        enough = max(_MIN_EPOCHS, self.least / trainer.steps_per_epoch)
        if len(elbos) < enough:
            return False
        rise, error = rise_of(elbos)
        self.flat = self.flat + 1 if rise < _TOLERANCE else 0
        is_noisy = trainer.optim is not None and error > _TOLERANCE
        return self.flat >= (len(elbos) // 4 if is_noisy else 1)

    def state_dict(self) -> dict[str, Any]:
        """The state, for checkpoints."""
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore such a state."""
        vars(self).update(state)
