"""Ctrl-C at a moment of one's choice."""

from __future__ import annotations

import itertools
import signal
from typing import Any

import pytest

from pyro_crowdclust.fitting import call


def press_control_c(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *calls: int) -> None:
    """Press it at the beginning of these calls of a function, counted from 1."""
    function, count = getattr(owner, name), itertools.count(1)

    def pressed(*arguments: Any, **options: Any) -> Any:
        if next(count) in calls:
            signal.raise_signal(signal.SIGINT)
        return function(*arguments, **options)

    monkeypatch.setattr(owner, name, pressed)


def press_in_start(monkeypatch: pytest.MonkeyPatch, *fits: int) -> None:
    """Press it in the starts of these fits, counted from 1."""
    press_control_c(monkeypatch, call, "cast_networks", *fits)
