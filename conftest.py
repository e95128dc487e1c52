"""Rooms are loaded before pytest collects their files, which it would else load a second time."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import array_shapes
import jaxtyping
import pyro
import pytest
from jaxtyping import install_import_hook

# The hook has all that is loaded meanwhile compiled anew, so what is large comes before it.
for large in ("pandas", "scipy.stats", "sklearn.metrics"):
    import_module(large)

# Arrays are compared with the shapes in the signatures of whatever a test calls.
jaxtyping.jaxtyped = array_shapes.jaxtyped
with install_import_hook("pyro_crowdclust", typechecker=None):
    import pyro_crowdclust

    for room in walk_packages(pyro_crowdclust.__path__, "pyro_crowdclust."):
        import_module(room.name)

# Sphinx reads it, in an environment of its own.
collect_ignore = ["docs/conf.py"]
PAGES = Path(__file__).parent / "docs"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Examples of a page are one test, which fits as often as the page does."""
    for item in items:
        if item.path.is_relative_to(PAGES):
            item.add_marker(pytest.mark.long)


@pytest.fixture(autouse=True)
def _checked_shapes() -> None:
    array_shapes.begin_test()


@pytest.fixture(autouse=True)
def _own_parameters() -> Iterator[None]:
    """Examples of plain Pyro leave parameters in its global store, and shall find none there."""
    pyro.clear_param_store()
    yield
    pyro.clear_param_store()
