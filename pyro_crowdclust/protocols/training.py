"""What callbacks see of a training run, and what they must be."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch

from pyro_crowdclust.data.crowd_data import CrowdData


class TrainingRun(Protocol):
    """What a callback finds: the ``Trainer`` after an epoch."""

    model: Any
    guide: Any
    data: CrowdData
    history: list[dict[str, float]]
    optim: torch.optim.Optimizer | None
    epochs_done: int
    steps_done: int
    dtype: torch.dtype
    device: str | torch.device | None


class Callback(Protocol):
    """What happens after an epoch: ``fit(callbacks=...)``."""

    def __call__(self, trainer: Any, /) -> None:
        """Look at the ``TrainingRun``, change its guide, or add keys to ``history[-1]``."""


@runtime_checkable
class SupportsState(Protocol):
    """A callback with state of its own, which checkpoints keep."""

    def state_dict(self) -> dict[str, Any]:
        """The state, of plain values and tensors."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from such a state."""
