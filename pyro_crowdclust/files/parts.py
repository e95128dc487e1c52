"""Parts of the library that remember their constructor arguments, and their names in files.

Only classes that a subpackage of this library lists in ``__all__``, or in ``FOR_FILES`` where they
are for files only, and that are decorated with ``described``, or dataclasses, have such a name, so
that a file can refer to nothing else. A name consists of subpackage and class, so that the module
within the subpackage may change.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from typing import Any, TypeGuard, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

PACKAGE = __name__.partition(".")[0]
_NAME = re.compile(rf"{PACKAGE}\.[a-z_]+:\w+")
_Class = TypeVar("_Class", bound=type)
_Part = TypeVar("_Part")


def described(cls: _Class) -> _Class:
    """Class decorator of a part of the library: objects remember their constructor arguments.

    Such a part can be saved with its arguments, ``**keywords`` among them, and rebuilt by ``load``.
    It must be determined by its arguments and tensors. Subclasses are not included, since they may
    be user-defined.

    The part, and what it remembers, have their own copies of tensors and arrays among the
    arguments, so that neither changes when the caller writes into them, or training into the part.
    """
    part: Any = cls  # Any, since a constructor and an attribute are set on the class
    construct = part.__init__
    signature = inspect.signature(construct)
    by_kind = {parameter.kind: name for name, parameter in signature.parameters.items()}
    keywords = by_kind.get(inspect.Parameter.VAR_KEYWORD, "")

    @functools.wraps(construct)
    def remember_and_construct(self: Any, *args: Any, **kwargs: Any) -> None:
        construct(self, *map(_own, args), **{name: _own(one) for name, one in kwargs.items()})
        if type(self) is cls:
            _, *bound = signature.bind(self, *args, **kwargs).arguments.items()
            remembered = {name: _own(value) for name, value in bound}
            remembered |= remembered.pop(keywords, {})
            vars(self)["constructor_arguments"] = remembered

    part.__init__ = remember_and_construct
    part.is_described = cls.__qualname__
    return cls


def _own(argument: Any) -> Any:
    """A copy of a tensor or an array; anything else itself."""
    if isinstance(argument, Tensor) and not isinstance(argument, nn.Parameter):
        return argument.clone()
    return argument.copy() if isinstance(argument, np.ndarray) else argument


def arguments_of(part: Any) -> dict[str, Any]:
    """The constructor arguments of a described part, by name; empty for other objects.

    Examples
    --------
    >>> from pyro_crowdclust.annotators import TwoCoin
    >>> arguments_of(TwoCoin(3))
    {'num_workers': 3}
    """
    found: dict[str, Any] = vars(part).get("constructor_arguments", {})
    return found


def rebuilt(part: _Part, **changes: Any) -> _Part:
    """A new object with the constructor arguments of a described part, except for changes.

    Parts among the arguments are shared, with their learned parameters; the learned parameters of
    the part itself are not kept.

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
        raise TypeError(
            f"{type(part).__name__} does not remember its constructor arguments: decorate its "
            "class with described"
        )
    return type(part)(**arguments_of(part) | changes)


def public_name(cls: type) -> str:
    """The name of a class in files: its subpackage, and its name there.

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
    # A subclass inherits the attribute, but has another name than the one in it.
    members = vars(cls)
    marked = members.get("is_described") == cls.__qualname__
    is_record = "__dataclass_params__" in members and members["__dataclass_params__"].init
    return (marked or is_record) and _offered(public_name(cls)) is cls


def part_class(name: str) -> type:
    """The class of this library with this name; nothing else is imported or called."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no part of {PACKAGE}")
    cls = _offered(name)
    if cls is None:
        raise ValueError(f"this version of {PACKAGE} has no {name!r}")
    if not isinstance(cls, type) or not is_part(cls):
        raise ValueError(f"{name!r} is no part of a model or of a guide")
    return cls


def is_optimizer(cls: Any) -> TypeGuard[type]:
    """Whether this is an optimizer class of torch, or of this library."""
    if not (isinstance(cls, type) and issubclass(cls, torch.optim.Optimizer)):
        return False
    return optimizer_class(optimizer_name(cls)) is cls


def optimizer_name(cls: type) -> str:
    """The name of an optimizer class in files: torch's own by their names alone.

    Examples
    --------
    >>> from pyro_crowdclust.training import PacedAdam
    >>> optimizer_name(torch.optim.Adam), optimizer_name(PacedAdam)
    ('Adam', 'pyro_crowdclust.training:PacedAdam')
    """
    return public_name(cls) if cls.__module__.partition(".")[0] == PACKAGE else cls.__name__


def optimizer_class(name: str) -> Any:
    """The optimizer of torch or of this library with this name, or None."""
    found = _offered(name) if _NAME.fullmatch(name) else vars(torch.optim).get(name)
    is_one = isinstance(found, type) and issubclass(found, torch.optim.Optimizer)
    return found if is_one else None


def _offered(name: str) -> Any:
    """The object that a subpackage lists under this name, or None."""
    room, _, name = name.partition(":")
    try:
        module = importlib.import_module(room)
    except ImportError:
        return None
    listed = {*getattr(module, "__all__", ()), *getattr(module, "FOR_FILES", ())}
    return getattr(module, name) if name in listed else None
