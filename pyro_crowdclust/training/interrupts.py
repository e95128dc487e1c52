"""Blocks in which Ctrl-C waits, such as a start, in which there is no result yet to be kept."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class WaitingInterrupt:
    """A block in which a first Ctrl-C is only recorded; a second one interrupts at once.

    It has no effect outside the main thread, which alone receives signals, or if Ctrl-C has another
    handler than Python's default one, ``KeyboardInterrupt``: that handler is called as usual.

    Attributes
    ----------
    received
        Whether Ctrl-C was pressed.

    Examples
    --------
    >>> before = signal.signal(signal.SIGINT, signal.default_int_handler)
    >>> with WaitingInterrupt() as interrupt:
    ...     signal.raise_signal(signal.SIGINT)
    ...     done = "all of it"
    >>> done, interrupt.received
    ('all of it', True)
    >>> _ = signal.signal(signal.SIGINT, before)
    """

    def __init__(self) -> None:
        self.received = False
        self._is_active = False

    def __enter__(self) -> WaitingInterrupt:
        """Replace the handler of Ctrl-C."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._record)
            self._is_active = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Restore the handler of Ctrl-C."""
        self._stop()

    def _record(self, number: int, frame: FrameType | None) -> None:
        self.received = True
        self._stop()

    def _stop(self) -> None:
        if self._is_active:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._is_active = False
