"""Checks of values that are read from a file, which may be damaged or malicious.

Every function returns the value if it is valid, and otherwise raises a ``ValueError`` with the
given name.
"""

from __future__ import annotations

from typing import Any, TypeVar

import pandas as pd
import torch
from torch import Tensor

_Value = TypeVar("_Value")


def check_kind(name: str, value: Any, kind: type[_Value]) -> _Value:
    """A value of this class; booleans do not count as numbers."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{name} is of type {type(value).__name__}, and not {kind.__name__}")
    return value


def check_count(name: str, value: Any, most: float = float("inf")) -> int:
    """A whole number from 0 to ``most``.

    Examples
    --------
    >>> check_count("steps_done", -3)
    Traceback (most recent call last):
    ValueError: steps_done is -3, and not a whole number from 0 on
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        reach = "on" if most == float("inf") else f"to {most:.0f}"
        raise ValueError(f"{name} is {value!r}, and not a whole number from 0 {reach}")
    return value


def check_number(name: str, value: Any) -> float:
    """A number, finite or not."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}, and not a number")
    return value


def check_tensors(name: str, value: Any) -> dict[str, Tensor]:
    """Tensors by their names."""
    for key, tensor in check_kind(name, value, dict).items():
        check_kind(f"a name in {name}", key, str)
        check_kind(f"{name}.{key}", tensor, Tensor)
    return value


def check_shape(name: str, value: Any, dtype: torch.dtype, shape: tuple[int | None, ...]) -> Tensor:
    """A tensor of this dtype and shape; None in the shape stands for any length."""
    tensor = check_kind(name, value, Tensor)
    fits = len(shape) == tensor.ndim and all(
        needed in (None, found) for needed, found in zip(shape, tensor.shape, strict=True)
    )
    if tensor.dtype != dtype or not fits:
        shown = ["any" if length is None else length for length in shape]
        raise ValueError(
            f"{name} is {tensor.dtype} of shape {list(tensor.shape)}, and not {dtype} of {shown}"
        )
    return tensor


def check_codes(name: str, value: Any, length: int | None, number: int, least: int = 0) -> Tensor:
    """A tensor of codes of this length, each at least ``least`` and below ``number``."""
    codes = check_shape(name, value, torch.int64, (length,))
    wrong = codes[(codes < least) | (codes >= number)]
    if len(wrong):
        raise ValueError(
            f"{name} holds {int(wrong[0])}, and not codes from {least} to {number - 1}"
        )
    return codes


def check_ids(name: str, value: Any, length: int | None = None) -> pd.Index:
    """An index of ids, of this length if one is given."""
    ids = check_kind(name, value, pd.Index)
    if length is not None and len(ids) != length:
        raise ValueError(f"{name} has {len(ids)} ids, and not {length}")
    return ids
