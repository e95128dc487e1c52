"""Conversion of values to JSON and tensors, and back, without running code from a file.

``describe`` turns a tree of plain values, tensors, indexes of tables and parts of this library into
JSON, which refers to tensors in a separate table by name. ``build`` inverts it. Parts of the
library are described by the arguments of their constructors (see ``parts.py``), and no other
objects are ever constructed.

A value without a JSON type is an object with one key that starts with a dollar sign.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pyro_crowdclust.files.parts import (
    PACKAGE,
    arguments_of,
    is_optimizer,
    is_part,
    optimizer_class,
    optimizer_name,
    part_class,
    public_name,
)


class _Scalar(NamedTuple):
    """A type of plain values without a JSON type, converted to and from text."""

    cls: type
    to_text: Callable[[Any], str]
    of_text: Callable[[str], Any]


# Types of ids, categories and options, in addition to numbers and texts.
_SCALARS = {
    scalar.cls.__name__: scalar
    for scalar in (
        _Scalar(date, date.isoformat, date.fromisoformat),
        _Scalar(datetime, datetime.isoformat, datetime.fromisoformat),
        _Scalar(
            timedelta,
            lambda value: repr(value.total_seconds()),
            lambda text: timedelta(seconds=float(text)),
        ),
        _Scalar(pd.Timestamp, pd.Timestamp.isoformat, pd.Timestamp),
        _Scalar(pd.Timedelta, pd.Timedelta.isoformat, pd.Timedelta),
        _Scalar(Decimal, str, Decimal),
        _Scalar(UUID, str, UUID),
        _Scalar(bytes, bytes.hex, bytes.fromhex),
    )
}


class NotDescribable(ValueError):
    """A value that is neither plain nor a part of this library."""


def describe(value: Any, tensors: dict[str, Tensor]) -> Any:
    """``value`` as JSON; its tensors go to ``tensors``, under their places in the tree.

    An object that occurs twice is described once, and referred to.

    Raises
    ------
    NotDescribable
        If a value cannot be described; the message names its place in the tree.

    Examples
    --------
    >>> import torch
    >>> tensors = {}
    >>> describe({"mean": torch.ones(2), "pair": (1, float("inf"))}, tensors)
    {'mean': {'$tensor': 'mean'}, 'pair': {'$tuple': [1, {'$float': 'inf'}]}}
    >>> tensors
    {'mean': tensor([1., 1.])}
    """
    return _Writer(tensors).write(value, "")


class _Writer:
    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self.tensors = tensors
        self.seen: dict[int, int] = {}
        # Keeps the objects alive, so that their id() is not reused.
        self.parts: list[Any] = []

    def write(self, value: Any, where: str) -> Any:
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, np.generic):
            return self.write(value.item(), where)
        if isinstance(value, int) and not isinstance(value, type):
            return int(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"$float": repr(float(value))}
        if isinstance(value, Tensor):
            return {"$tensor": self._add(value, where)}
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            return {"$array": self._array(value, where)}
        if isinstance(value, torch.dtype):
            return {"$dtype": str(value).removeprefix("torch.")}
        if isinstance(value, pd.Index):
            return {"$index": self._index(value, where)}
        if isinstance(value, list | range):
            return self._items(value, where)
        if isinstance(value, tuple) and type(value) in (tuple, torch.Size):
            return {"$tuple": self._items(value, where)}
        if isinstance(value, dict):
            return self._dict(value, where)
        if (scalar := _SCALARS.get(type(value).__name__)) and type(value) is scalar.cls:
            return {"$scalar": [type(value).__name__, scalar.to_text(value)]}
        if isinstance(value, pd.Interval):
            return {"$interval": [*self._items((value.left, value.right), where), value.closed]}
        if isinstance(value, pd.Period):
            return {"$period": [value.ordinal, value.freqstr]}
        if is_optimizer(value):
            value = functools.partial(value)
        if isinstance(value, functools.partial) and is_optimizer(value.func) and not value.args:
            arguments = self._dict(value.keywords, where)
            return {"$optimizer": {"class": optimizer_name(value.func), "arguments": arguments}}
        return self._part(value, where)

    def _add(self, tensor: Tensor, where: str) -> str:
        name = where if where not in self.tensors else f"{where}#{len(self.tensors)}"
        self.tensors[name] = tensor.detach()
        return name

    def _array(self, values: np.ndarray, where: str) -> dict[str, str]:
        # torch lacks some unsigned types, so these are written as signed ones with the same bytes.
        kind = values.dtype.str.replace("u", "i").replace(">", "<")
        native = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
        name = self._add(torch.from_numpy(native.view(kind).copy()), where)
        return {"tensor": name, "dtype": str(native.dtype)}

    def _items(self, values: Iterable[Any], where: str) -> list[Any]:
        return [self.write(value, _join(where, number)) for number, value in enumerate(values)]

    def _dict(self, value: dict, where: str) -> Any:
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: self.write(item, _join(where, key)) for key, item in value.items()}
        entries = [
            [self.write(key, f"{where}.key{number}"), self.write(item, _join(where, number))]
            for number, (key, item) in enumerate(value.items())
        ]
        return {"$dict": entries}

    def _index(self, index: pd.Index, where: str) -> dict[str, Any]:
        described: dict[str, Any] = {"name": self.write(index.name, f"{where}.name")}
        if isinstance(index, pd.MultiIndex):
            index = index.to_flat_index()
        if isinstance(index, pd.RangeIndex):
            return described | {"range": [index.start, index.stop, index.step]}
        described["dtype"] = str(index.dtype)
        values = index.to_numpy()
        if values.dtype.kind in "biuf":
            return described | {"numbers": self._array(values, where)}
        if len(values) and all(type(value) is str for value in values):
            # Millions of ids are read much faster as bytes than as JSON.
            texts = [value.encode("utf-8", "surrogatepass") for value in values]
            joined = np.frombuffer(b"".join(texts), np.uint8).copy()
            lengths = torch.tensor([len(text) for text in texts])
            return described | {
                "texts": self._add(torch.from_numpy(joined), f"{where}.texts"),
                "lengths": self._add(lengths, f"{where}.lengths"),
            }
        if values.dtype.kind in "mM":
            # Integers in the unit of the dtype, such as nanoseconds.
            return described | {"moments": self._array(values.view("i8"), where)}
        return described | {"values": self._items(values, where)}

    def _part(self, value: Any, where: str) -> Any:
        if id(value) in self.seen:
            return {"$same": self.seen[id(value)]}
        cls = type(value)
        if not is_part(cls):
            raise NotDescribable(
                f"{where or 'it'} is a {_name(value)}, which is neither a plain value nor a part "
                f"of {PACKAGE}"
            )
        number = self.seen[id(value)] = len(self.parts)
        self.parts.append(value)
        if dataclasses.is_dataclass(cls):
            arguments = {f.name: getattr(value, f.name) for f in dataclasses.fields(cls) if f.init}
        else:
            arguments = arguments_of(value)
        described = {"class": public_name(cls), "number": number}
        return {"$part": described | {"arguments": self._dict(arguments, where)}}


def _name(value: Any) -> str:
    named = value if hasattr(value, "__qualname__") else type(value)  # of functions and classes
    return f"{named.__module__}.{named.__qualname__}"


def _join(where: str, key: Any) -> str:
    return f"{where}.{key}" if where else str(key)


def build(description: Any, tensors: dict[str, Tensor]) -> Any:
    """The value of a description by ``describe``.

    Raises
    ------
    ValueError
        If the description is invalid, or names anything but parts of this library.

    Examples
    --------
    >>> tensors = {}
    >>> described = describe({"rows": pd.Index(["a", "b"]), 3: float("nan")}, tensors)
    >>> build(described, tensors)
    {'rows': Index(['a', 'b'], dtype='str'), 3: nan}
    """
    return _Reader(tensors).read(description)


class _Reader:
    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self.tensors = tensors
        self.parts: dict[int, Any] = {}

    def read(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.read(item) for item in value]
        if not isinstance(value, dict):
            return value
        kind = next((key for key in value if key.startswith("$")), None)
        if kind is None:
            return {key: self.read(item) for key, item in value.items()}
        content = value[kind]
        readers: dict[str, Callable[[Any], Any]] = {
            "$float": float,
            "$scalar": lambda named: _SCALARS[named[0]].of_text(named[1]),
            "$interval": lambda ends: pd.Interval(*map(self.read, ends)),
            "$period": lambda parts: pd.Period(ordinal=parts[0], freq=parts[1]),
            "$tensor": self.tensors.__getitem__,
            "$array": self._array,
            "$dtype": _dtype,
            "$tuple": lambda items: tuple(map(self.read, items)),
            "$dict": lambda pairs: {self.read(key): self.read(item) for key, item in pairs},
            "$index": self._index,
            "$optimizer": self._optimizer,
            "$part": self._part,
            "$same": self.parts.__getitem__,
        }
        if kind not in readers or len(value) > 1:
            raise ValueError(f"no value is described as {kind}")
        return readers[kind](content)

    def _array(self, described: dict[str, str]) -> np.ndarray:
        dtype = np.dtype(described["dtype"])
        if dtype.kind not in "biuf":
            raise ValueError(f"no numbers are of dtype {dtype}")
        return self.tensors[described["tensor"]].numpy().view(dtype)

    def _index(self, described: dict[str, Any]) -> pd.Index:
        name = self.read(described["name"])
        if "range" in described:
            return pd.RangeIndex(range(*described["range"]), name=name)
        values: Any
        dtype = described["dtype"]
        if "texts" in described:
            joined = self.tensors[described["texts"]].numpy().tobytes()
            lengths = self.tensors[described["lengths"]]
            if bool((lengths < 0).any()) or int(lengths.sum()) != len(joined):
                raise ValueError("the lengths of its texts do not match the texts")
            ends = lengths.cumsum(0).tolist()
            starts = [0, *ends[:-1]]
            values = [
                joined[start:end].decode("utf-8", "surrogatepass")
                for start, end in zip(starts, ends, strict=True)
            ]
        elif "numbers" in described:
            values = self._array(described["numbers"])
        elif "moments" in described:
            if np.dtype(dtype).kind not in "mM":
                raise ValueError(f"no times are of dtype {dtype}")
            values = self._array(described["moments"]).view(np.dtype(dtype))
        else:
            values = np.empty(len(described["values"]), dtype=object)
            values[:] = self.read(described["values"])
        return pd.Index(values, dtype=dtype, name=name, tupleize_cols=False)

    def _optimizer(self, described: dict[str, Any]) -> Any:
        cls = optimizer_class(described["class"])
        if cls is None:
            raise ValueError(f"neither torch nor {PACKAGE} has an optimizer {described['class']!r}")
        return functools.partial(cls, **self.read(described["arguments"]))

    def _part(self, described: dict[str, Any]) -> Any:
        cls = part_class(described["class"])
        arguments = self.read(described["arguments"])
        part = self.parts[described["number"]] = cls(**arguments)
        return part


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"there is no dtype {name!r}")
    return dtype
