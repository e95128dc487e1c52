"""A first Ctrl-C waits for the end of a block, a second one does not."""

from __future__ import annotations

import signal
import threading

import pytest

from pyro_crowdclust.training.interrupts import WaitingInterrupt


def test_the_second_one_does_not_wait():
    with WaitingInterrupt() as interrupt:
        signal.raise_signal(signal.SIGINT)
        assert interrupt.heard
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_whoever_else_handles_it_is_called():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        with WaitingInterrupt() as interrupt:
            signal.raise_signal(signal.SIGINT)
            assert heard == [1]
        assert not interrupt.heard
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_change_no_handler():
    found = []

    def look():
        with WaitingInterrupt():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]
