"""Loops that are compiled."""

from __future__ import annotations

from pyro_crowdclust.partitions import compiling


def test_where_no_folder_can_be_written_functions_are_compiled_all_the_same(monkeypatch):
    asked = []

    def njit(function=None, *, cache=False):
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return function

    monkeypatch.setattr(compiling, "njit", njit)
    assert compiling.compiled(abs) is abs
    assert asked == [True, False]
