"""What Python objects hold, to see whether it is still the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from operator import is_
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from torch import Tensor, nn

# Values without parts that could change.
_WHOLE = (Tensor, type, FunctionType, MethodType, ModuleType)
# A module's dictionaries that are about hooks of other things than its calls and gradients.
_OF_HOOKS = frozenset(vars(nn.Module())) - {
    *("training", "_parameters", "_buffers", "_modules"),
    *("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"),
}
_PLAIN = (bool, int, float, complex, str, bytes)


class PythonState:
    """Everything that can be reached from some objects by attributes, keys and positions.

    A tensor is the same as long as it is the same object: numbers that change in its memory are no
    change. Numbers and texts are compared by value.

    Parameters
    ----------
    roots
        The objects, by name.
    but_for
        Names of attributes that may change, by the ``id`` of the object that has them.

    Examples
    --------
    >>> import torch
    >>> guide = torch.nn.Linear(2, 3)
    >>> state = PythonState({"guide": guide})
    >>> state.changed()
    >>> guide.weight.data.zero_()[0]
    tensor([0., 0.])
    >>> state.changed()
    >>> guide.eval().training
    False
    >>> state.changed()
    'guide.training'
    """

    def __init__(
        self, roots: Mapping[str, Any], but_for: Mapping[int, Collection[str]] | None = None
    ) -> None:
        self._but_for = but_for or {}
        self._held: list[_Held] = []
        self._empty: list[tuple[str, Any]] = []
        self.objects: list[Any] = []
        self._seen: set[int] = set()
        for name, root in roots.items():
            self._visit(name, root)
        self._all_empty = [container for _, container in self._empty]

    def _visit(self, name: str, value: Any) -> None:
        if isinstance(value, _WHOLE) or id(value) in self._seen:
            return
        if isinstance(value, dict):
            self._hold(name, value, tuple(value), value.values)
        elif isinstance(value, list | tuple):
            self._hold(name, value, tuple(range(len(value))), value.__iter__)
        elif hasattr(value, "__dict__"):
            self._seen.add(id(value))
            self.objects.append(value)
            attributes, left_out = vars(value), self._but_for.get(id(value), ())
            keys = tuple(key for key in attributes if key not in left_out)
            read = partial(map, attributes.get, keys) if left_out else attributes.values
            self._hold(name, attributes, keys, read)

    def _hold(self, name: str, container: Any, keys: tuple, read: Callable) -> None:
        # The containers are kept, so that no other can have their ids.
        self._seen.add(id(container))
        if not container:
            self._empty.append((name, container))
            return
        values = tuple(read())
        self._held.append(_Held(name, container, keys, read, values))
        for key, value in zip(keys, values, strict=True):
            if key not in _OF_HOOKS:
                self._visit(_joined(name, key), value)

    def changed(self) -> str | None:
        """Where something is not what it was, or None."""
        if any(self._all_empty):
            return next(name for name, container in self._empty if container)
        for name, _, keys, read, before in self._held:
            now = tuple(read())
            if len(now) != len(before):
                return name
            if not all(map(is_, now, before)):
                for key in _different(keys, now, before):
                    return _joined(name, key)
        return None


class _Held(NamedTuple):
    """What a container held: its values as ``read`` reads them, and their keys."""

    name: str
    container: Any
    keys: tuple
    read: Callable[[], Iterable]
    values: tuple


def _different(keys: tuple, now: tuple, before: tuple) -> Iterator[Any]:
    for key, new, old in zip(keys, now, before, strict=True):
        equal = type(new) is type(old) and isinstance(new, _PLAIN) and new == old
        if new is not old and not equal:
            yield key


def _joined(name: str, key: Any) -> str:
    if isinstance(key, str) and key in ("_parameters", "_buffers", "_modules"):
        return name
    return f"{name}.{key}" if isinstance(key, str) else f"{name}[{key!r}]"
