"""What the suite has in place of jaxtyping's decorator: do arrays have the shapes of signatures?

Only annotations that name an array are looked at, alone, in a union, or in a tuple of fixed
length; mypy reads the others. Dimensions of one name are compared within a call, which is
jaxtyping's own work. In every test the first calls of each function are compared: a fit calls the
same ones thousands of times. With jaxtyping's own decorator, which takes a millisecond a function
and wraps every call of all of them, the suite takes a quarter more time.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

import jaxtyping
from jaxtyping import AbstractArray, AbstractDtype, TypeCheckError

# Of one function, in one test.
_CALLS = 2
# How often each was called in this test, by its place in the library, and which of them were.
_counts: dict[tuple[str, str], list[int]] = {}
_called: list[list[int]] = []

_KINDS = [
    name
    for name, kind in vars(jaxtyping).items()
    if inspect.isclass(kind) and issubclass(kind, AbstractDtype)
]
_NAMES_ARRAY = re.compile(rf"\b({'|'.join(_KINDS)})\[")


def begin_test() -> None:
    """Compare the arrays of every function again."""
    for count in _called:
        count[0] = 0
    _called.clear()


def jaxtyped(thing: Any = None, **_: Any) -> Any:
    """In place of jaxtyping's decorator: compare the arrays of the first calls."""
    if thing is None:
        return jaxtyped
    if inspect.isclass(thing):
        if is_dataclass(thing) and "__init__" in vars(thing):
            thing.__init__ = jaxtyped(thing.__init__)
        return thing
    if hasattr(thing, "__wrapped__") or not any(map(_mentions_array, _annotations(thing))):
        return thing
    names = list(inspect.signature(thing).parameters)
    # Not before the first call: a module's later names are not there when it is loaded.
    hints_of = functools.cache(lambda: _array_hints(thing))
    # Functions inside of functions are made anew in every call, and are one by their place.
    count = _counts.setdefault((thing.__module__, thing.__qualname__), [0])

    @functools.wraps(thing)
    def compared(*args: Any, **kwargs: Any) -> Any:
        if count[0] >= _CALLS:
            return thing(*args, **kwargs)
        if not count[0]:
            _called.append(count)
        count[0] += 1
        hints = hints_of()
        with _one_call("context"):
            for name, value in (*zip(names, args, strict=False), *kwargs.items()):
                if name in hints and not _fits(hints[name], value):
                    raise TypeCheckError(_misfit(thing, f"parameter {name!r}", hints[name], value))
            result = thing(*args, **kwargs)
            if "return" in hints and not _fits(hints["return"], result):
                raise TypeCheckError(_misfit(thing, "what it returns", hints["return"], result))
        return result

    # Errors name the user's own code, which is what is in no library: this is in jaxtyping's place.
    compared.__code__ = compared.__code__.replace(co_filename=jaxtyping.__file__)
    return compared


# Dimensions of one name agree within it.
_one_call = jaxtyping.jaxtyped


def _annotations(function: Callable[..., Any]) -> list[str]:
    return [str(annotation) for annotation in function.__annotations__.values()]


def _mentions_array(annotation: str) -> bool:
    return _NAMES_ARRAY.search(annotation) is not None


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
