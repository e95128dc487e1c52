"""The optional contract of callbacks with state."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class SupportsState(Protocol):
    """A callback with state, which checkpoints save."""

    def state_dict(self) -> dict[str, Any]:
        """The state, as plain values and tensors."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore such a state."""
