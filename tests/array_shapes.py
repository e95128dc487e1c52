"""What jaxtyping's import hook asks of a checker: do arrays have the shapes of their signatures?

Only annotations that name an array are looked at, alone, in a union, or in a tuple of fixed
length; mypy reads the others. Dimensions of one name are compared within a call, which is
jaxtyping's own work. In every test the first calls of each function are checked: a fit calls the
same ones thousands of times.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

from jaxtyping import AbstractArray

# Of one function, in one test.
_CALLS = 2
_tired: set[Callable[..., Any]] = set()
_counts: dict[Callable[..., Any], int] = {}


def begin_test() -> None:
    """Check every function again."""
    for function in _tired:
        function.__no_type_check__ = False  # type: ignore[attr-defined]
    _tired.clear()
    _counts.clear()


def check_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which compares its arrays with its annotations before and after it runs."""
    names = list(inspect.signature(function).parameters)

    @functools.cache
    def found() -> tuple[dict[str, Any], Callable[..., Any] | None]:
        # Not before the first call: a module's later names are not there when it is loaded.
        hints, original = _array_hints(function), _original(function)
        if original is not None and not hints:
            original.__no_type_check__ = True
        return hints, original

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        hints, original = found()
        if original is not None:
            _counts[original] = _counts.get(original, 0) + 1
            if _counts[original] > 2 * _CALLS:  # before it runs and after
                original.__no_type_check__ = True
                _tired.add(original)
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            if name in hints and not _fits(hints[name], value):
                raise TypeError(_misfit(function, name, hints[name], value))
        result = function(*args, **kwargs)
        if "return" in hints and not _fits(hints["return"], result):
            raise TypeError(_misfit(function, "what it returns", hints["return"], result))
        return result

    return checked


def _original(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """The function of the library that jaxtyping asks about by a stand-in of the same name."""
    place: Any = sys.modules[function.__module__]
    for name in function.__qualname__.split("."):
        place = vars(place).get(name)
        if place is None:
            return None
    place = getattr(place, "fget", None) or getattr(place, "__func__", place)
    return inspect.unwrap(place) if callable(place) else None


def _misfit(function: Callable[..., Any], name: str, hint: object, value: Any) -> str:
    shape, kind = getattr(value, "shape", None), getattr(value, "dtype", None)
    where = f"{function.__module__}.{function.__qualname__}"
    return f"{where}: {name} is {type(value).__name__}, {kind} {shape}, and not {hint}"


def _array_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Annotations that name an array; a default is no argument and has none."""
    module = vars(sys.modules[function.__module__])
    found = {}
    for name, annotation in function.__annotations__.items():
        try:
            hint = eval(annotation, module) if isinstance(annotation, str) else annotation
        except NameError:
            continue  # a name that only a type checker loads is no array
        if _names_array(hint):
            found[name] = hint
    return found


def _names_array(hint: object) -> bool:
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return True
    return any(_names_array(part) for part in typing.get_args(hint))


def _fits(hint: Any, value: Any) -> bool:
    """Whether a value is of its annotation, as far as arrays are concerned."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_is_one(part, value) for part in parts)
    if origin is tuple and Ellipsis not in parts:
        pairs = zip(parts, value, strict=True)
        return all(_fits(part, entry) for part, entry in pairs if _names_array(part))
    return origin is not None or isinstance(value, hint)


def _is_one(hint: Any, value: Any) -> bool:
    """One way of a union: an array of its shape, or something that is no array here."""
    if _names_array(hint):
        return _fits(hint, value)
    kind = typing.get_origin(hint) or hint
    return not isinstance(kind, type) or isinstance(value, kind)
