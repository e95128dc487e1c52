"""What Python objects hold, to see whether it is still the same."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from operator import is_
from types import FunctionType, MethodType, ModuleType
from typing import Any

from torch import Tensor

# Values without parts that could change.
_WHOLE = (Tensor, type, FunctionType, MethodType, ModuleType)
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
        self._held: list[tuple[str, Any, tuple, tuple]] = []
        self.objects: list[Any] = []
        self._seen: set[int] = set()
        for name, root in roots.items():
            self._visit(name, root)

    def _visit(self, name: str, value: Any) -> None:
        if isinstance(value, _WHOLE) or id(value) in self._seen:
            return
        if isinstance(value, dict):
            self._hold(name, value, tuple(value))
        elif isinstance(value, list | tuple):
            self._hold(name, value, tuple(range(len(value))))
        elif hasattr(value, "__dict__"):
            self._seen.add(id(value))
            self.objects.append(value)
            left_out = self._but_for.get(id(value), ())
            self._hold(name, vars(value), tuple(key for key in vars(value) if key not in left_out))

    def _hold(self, name: str, container: Any, keys: tuple) -> None:
        # The objects are kept, so that no other can have their ids.
        self._seen.add(id(container))
        values = tuple(container[key] for key in keys)
        if keys:
            self._held.append((name, container, keys, values))
        for key, value in zip(keys, values, strict=True):
            if not _is_of_hooks(key):
                self._visit(_joined(name, key), value)

    def changed(self) -> str | None:
        """Where something is not what it was, or None."""
        for name, container, keys, before in self._held:
            try:
                now = tuple(map(container.__getitem__, keys))
            except LookupError:
                return name
            if not all(map(is_, now, before)):
                for key in _different(keys, now, before):
                    return _joined(name, key)
        return None


def _different(keys: tuple, now: tuple, before: tuple) -> Iterator[Any]:
    for key, new, old in zip(keys, now, before, strict=True):
        equal = type(new) is type(old) and isinstance(new, _PLAIN) and new == old
        if new is not old and not equal:
            yield key


def _is_of_hooks(key: Any) -> bool:
    """Whether a module keeps its hooks there: a dozen of mostly empty dictionaries for each."""
    return isinstance(key, str) and key.startswith("_") and "_hooks" in key


def _joined(name: str, key: Any) -> str:
    if key in ("_parameters", "_buffers", "_modules"):
        return name
    return f"{name}.{key}" if isinstance(key, str) else f"{name}[{key!r}]"
