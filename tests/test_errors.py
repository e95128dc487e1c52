"""Which line a warning names."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from pyro_crowdclust import errors


def in_the_library(function):
    """The function, as if it was defined in a module of the library."""
    scope = {"__name__": "pyro_crowdclust.somewhere", "function": function}
    exec("def call(*args):\n    return function(*args)", scope)
    return scope["call"]


@contextmanager
def decorated():
    """With it, Python's own ``contextlib`` is between the user's call and the library."""
    yield


@pytest.mark.parametrize("depth", [0, 1, 4])
def test_a_warning_names_the_users_line_however_deep_it_is(depth):
    call = errors.warn
    for _ in range(depth):
        call = in_the_library(call)
    call = decorated()(call)
    with pytest.warns(UserWarning, match="row 3") as found:
        call("row 3 is empty")
    assert found[0].filename == __file__


def test_where_no_call_is_the_users_the_one_that_warns_is_named(monkeypatch):
    monkeypatch.setattr(errors, "_is_users", lambda frame: False)
    with pytest.warns(UserWarning, match="row 3") as found:
        errors.warn("row 3 is empty")
    assert found[0].filename == __file__
