"""What a callback may be asked for."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class SupportsState(Protocol):
    """A callback with state of its own, which checkpoints keep."""

    def state_dict(self) -> dict[str, Any]:
        """The state, of plain values and tensors."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from such a state."""
