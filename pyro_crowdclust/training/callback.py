"""The contract of callbacks."""

from __future__ import annotations

from typing import Protocol

from pyro_crowdclust.training.trainer import Trainer


class Callback(Protocol):
    """A function called after every epoch, ``fit(callbacks=...)``; see also ``SupportsState``."""

    def __call__(self, trainer: Trainer, /) -> None:
        """Read the run, change its guide, or add keys to ``history[-1]``."""
