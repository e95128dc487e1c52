"""Compiles loops over items, where each visit depends on all earlier ones, by Numba."""

from __future__ import annotations

from collections.abc import Callable

from numba import njit


def compiled(function: Callable) -> Callable:
    """The function, compiled at its first call and, where possible, cached on disk."""
    try:
        return njit(cache=True)(function)
    except RuntimeError:  # no folder can be written to
        return njit(function)
