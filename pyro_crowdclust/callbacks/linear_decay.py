"""A schedule of the networks' learning rate: constant, then linear decay."""

from __future__ import annotations

from dataclasses import dataclass

from pyro_crowdclust.training.trainer import Trainer


@dataclass(frozen=True)
class LinearDecay:
    """A callback of ``fit``: the learning rate falls linearly over the last epochs.

    In epoch e of T, with s the number of epochs at the full rate,

        r_e = r min(1, (T + 1 - e) / (T + 1 - s))

    Steps of constant size leave the networks at a random point around the optimum; a decaying rate
    averages over them. Natural steps have their own schedules, such as ``RobbinsMonro``.

    Attributes
    ----------
    rate
        r, with which the optimizer should start.
    epochs
        T.
    constant
        s.

    Examples
    --------
    >>> decay = LinearDecay(1e-3, epochs=5, constant=2)
    >>> [round(decay.in_epoch(epoch), 5) for epoch in range(1, 6)]
    [0.001, 0.001, 0.00075, 0.0005, 0.00025]
    """

    rate: float
    epochs: int
    constant: int = 0

    def in_epoch(self, epoch: int) -> float:
        """The rate of an epoch, counted from 1; constant after the last one."""
        left = max(self.epochs + 1 - epoch, 1)
        return self.rate * min(1.0, left / (self.epochs + 1 - self.constant))

    def __call__(self, trainer: Trainer) -> None:
        """Set the rate of the next epoch."""
        for group in [] if trainer.optim is None else trainer.optim.param_groups:
            group["lr"] = self.in_epoch(trainer.epochs_done + 1)
