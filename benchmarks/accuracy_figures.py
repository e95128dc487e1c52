"""Figures of ``make accuracy``: functions that turn an experiment's JSON into text for a table."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any


def value(key: str, digits: int = 3) -> Callable[[dict[str, Any]], str]:
    """The value of one key."""
    return lambda figures: f"{figures[key]:.{digits}f}"


def spread(key: str) -> Callable[[dict[str, Any]], str]:
    """Median, worst and all values of a list."""

    def text(figures: dict[str, Any]) -> str:
        values = figures[key]
        every = ", ".join(f"{one:.3f}" for one in values)
        return f"median {statistics.median(values):.3f}, worst {min(values):.3f} ({every})"

    return text


def every(key: str, digits: int = 3) -> Callable[[dict[str, Any]], str]:
    """The value of one key for every seed."""
    return lambda figures: ", ".join(f"{one:.{digits}f}" for one in figures[key])


def mean_and_spread(key: str) -> Callable[[dict[str, Any]], str]:
    """Mean, standard deviation and all values of a score over the seeds."""
    return lambda figures: _mean_and_spread(figures[key], 4, "")


def percent(key: str) -> Callable[[dict[str, Any]], str]:
    """Mean, standard deviation and all values of an error, in percent."""
    return lambda figures: _mean_and_spread([100 * one for one in figures[key]], 2, " %")


def _mean_and_spread(values: list[float], digits: int, unit: str) -> str:
    mean = f"{statistics.mean(values):.{digits}f}{unit}"
    if len(values) == 1:
        return mean
    each = ", ".join(f"{one:.{digits}f}" for one in values)
    return f"{mean} ± {statistics.stdev(values):.{digits}f} ({each})"
