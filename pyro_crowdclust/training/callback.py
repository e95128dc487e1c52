"""What a callback must be."""

from __future__ import annotations

from typing import Protocol

from pyro_crowdclust.training.trainer import Trainer


class Callback(Protocol):
    """What happens after an epoch, ``fit(callbacks=...)``; it may have a state, too."""

    def __call__(self, trainer: Trainer, /) -> None:
        """Look at the run, change its guide, or add keys to ``history[-1]``."""
