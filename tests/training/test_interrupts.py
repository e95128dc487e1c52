"""A first Ctrl-C waits for the end of a block, as of a start; a second one does not."""

from __future__ import annotations

import signal
import threading
from functools import partial

import pytest
import torch

from pyro_crowdclust.starts import KMeansStart
from pyro_crowdclust.training.interrupts import WaitingInterrupt

from ..control_c import press_in_start
from ..crowds import crowd, plain_pair, quiet_fit
from ..same_fits import equal, parameters


def test_the_second_one_does_not_wait():
    with WaitingInterrupt() as interrupt:
        signal.raise_signal(signal.SIGINT)
        assert interrupt.received
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
        assert not interrupt.received
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


def test_interrupted_in_a_start(monkeypatch):
    """What the start has found is kept; who does not want to wait for it presses twice."""
    data, (model, guide) = crowd(), plain_pair()
    train = partial(quiet_fit, model, guide, data, batch_size=None, dtype=torch.float64)
    press_in_start(monkeypatch, 1)
    result = train(initialize=KMeansStart())
    KMeansStart()(model, guide, data, torch.Generator().manual_seed(0))
    assert result.stop_reason == "interrupted by the user after 0 steps"
    assert result.history.empty
    assert equal(parameters(result.guide), parameters(guide))
    press_in_start(monkeypatch, 1)
    press_in_start(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        train()
