"""Rooms are loaded before pytest collects their files, which it would else load a second time."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

import pyro
import pytest

import pyro_crowdclust

for room in iter_modules(pyro_crowdclust.__path__, "pyro_crowdclust."):
    import_module(room.name)

# Sphinx reads it, in an environment of its own.
collect_ignore = ["docs/conf.py"]


@pytest.fixture(autouse=True)
def _own_parameters() -> Iterator[None]:
    """Examples of plain Pyro leave parameters in its global store, and shall find none there."""
    pyro.clear_param_store()
    yield
    pyro.clear_param_store()
