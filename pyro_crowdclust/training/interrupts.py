"""Ctrl-C that waits: in the middle of a start there is nothing yet that could be kept."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class WaitingInterrupt:
    """A block in which a first Ctrl-C only notes itself; a second one is not made to wait.

    Nothing happens in other threads than the main one, which alone hears signals, or where Ctrl-C
    is not a ``KeyboardInterrupt``: who handles it otherwise is called as ever.

    Attributes
    ----------
    heard
        Whether there was one.

    Examples
    --------
    >>> before = signal.signal(signal.SIGINT, signal.default_int_handler)
    >>> with WaitingInterrupt() as interrupt:
    ...     signal.raise_signal(signal.SIGINT)
    ...     done = "all of it"
    >>> done, interrupt.heard
    ('all of it', True)
    >>> _ = signal.signal(signal.SIGINT, before)
    """

    def __init__(self) -> None:
        self.heard = False
        self._listens = False

    def __enter__(self) -> WaitingInterrupt:
        """Begin to listen."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._hear)
            self._listens = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let Ctrl-C be what it was."""
        self._stop()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.heard = True
        self._stop()

    def _stop(self) -> None:
        if self._listens:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._listens = False
