"""Parts of the library that remember how they were made, and the names that files have for them.

Only classes that a face of this library offers and that say so (``described``, or a dataclass) have
a name, so that a file can name nothing else. They are named by the face, so that where in the
library they stand may change.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from typing import Any, TypeVar

PACKAGE = __name__.partition(".")[0]
_Class = TypeVar("_Class", bound=type)
_Part = TypeVar("_Part")


def described(cls: _Class) -> _Class:
    """Class decorator of a part of the library: objects remember how they were constructed.

    Such a part can be saved with its arguments and built again by ``load``. It must be made of its
    arguments and of tensors alone. Objects of subclasses do not count: those may be anybody's.
    """
    part: Any = cls  # whose class gets a constructor and a mark
    construct = part.__init__
    signature = inspect.signature(construct)
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

    @functools.wraps(construct)
    def remember_and_construct(self: Any, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)
        if type(self) is cls:
            bound = signature.bind(self, *args, **kwargs).arguments
            _, *names = (p.name for p in signature.parameters.values() if p.kind not in variable)
            remembered = {name: bound[name] for name in names if name in bound}
            vars(self)["constructor_arguments"] = remembered

    part.__init__ = remember_and_construct
    part.is_described = cls.__qualname__
    return cls


def arguments_of(part: Any) -> dict[str, Any]:
    """What a described part was constructed with, by name, as files have it; else nothing.

    Examples
    --------
    >>> from pyro_crowdclust.annotators import TwoCoin
    >>> arguments_of(TwoCoin(3))
    {'num_workers': 3}
    """
    found: dict[str, Any] = vars(part).get("constructor_arguments", {})
    return found


def rebuilt(part: _Part, **changes: Any) -> _Part:
    """A described part, made anew of the arguments that it was constructed with, but for changes.

    Parts among the arguments are shared, and so is what these have learned; what the part itself
    has learned is not kept.

    Raises
    ------
    TypeError
        If the part does not remember its arguments.

    Examples
    --------
    >>> from pyro_crowdclust.annotators import TwoCoin
    >>> rebuilt(TwoCoin(3, specificity=(4.0, 1.0)), num_workers=5).num_workers
    5
    """
    if "constructor_arguments" not in vars(part):
        raise TypeError(f"{type(part).__name__} does not remember how it was constructed")
    return type(part)(**arguments_of(part) | changes)


def public_name(cls: type) -> str:
    """What files call a class: the face that offers it, and its name there.

    Examples
    --------
    >>> from pyro_crowdclust.mixture import GaussianComponents
    >>> public_name(GaussianComponents)
    'pyro_crowdclust.mixture:GaussianComponents'
    """
    return f"{'.'.join(cls.__module__.split('.')[:2])}:{cls.__qualname__}"


def is_part(cls: type) -> bool:
    """Whether a file may name this class."""
    if cls.__module__.partition(".")[0] != PACKAGE:
        return False
    # A subclass inherits the mark, but not the name in it.
    members = vars(cls)
    marked = members.get("is_described") == cls.__qualname__
    is_record = "__dataclass_params__" in members and members["__dataclass_params__"].init
    return (marked or is_record) and _offered(public_name(cls)) is cls


def part_class(name: str) -> type:
    """The class of this library with this name; nothing else is imported, let alone called."""
    if not re.fullmatch(rf"{PACKAGE}\.[a-z_]+:\w+", name):
        raise ValueError(f"{name!r} is no part of {PACKAGE}")
    cls = _offered(name)
    if cls is None:
        raise ValueError(f"this version of {PACKAGE} has no {name!r}")
    if not isinstance(cls, type) or not is_part(cls):
        raise ValueError(f"{name!r} is no part of a model or of a guide")
    return cls


def _offered(name: str) -> Any:
    """What a face offers under this name, or None."""
    face, _, name = name.partition(":")
    try:
        module = importlib.import_module(face)
    except ImportError:
        return None
    return getattr(module, name) if name in getattr(module, "__all__", ()) else None
