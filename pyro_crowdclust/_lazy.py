"""Faces whose names are loaded when they are first asked for: torch and Pyro take seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def loaded_late(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package that offers names of its modules.

    Parameters
    ----------
    package
        Its name.
    homes
        The module that defines each name, within the package.
    """
    face = vars(sys.modules[package])

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = face[name] = getattr(import_module(f"{package}.{homes[name]}"), name)
        return value

    return load, lambda: sorted({*face, *homes})
