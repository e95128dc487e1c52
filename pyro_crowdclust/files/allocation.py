"""A limit of the memory that building the content of a file may allocate.

A description of a few bytes can demand any number of clusters. The tensors of a valid one are about
as large as those stored in the file, so the size of every new tensor is compared with the size of
the file before its memory is allocated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

# The limit of a single tensor: this many times the size of the file plus this many bytes.
_TIMES, _MORE = 4, 2**24
# The limit of all tensors together; each counts as at least 16 kB, which also limits the time.
_TIMES_IN_ALL, _MORE_IN_ALL, _MIN_COUNTED = 64, 2**29, 2**14


@contextmanager
def limited_allocation(file_bytes: int) -> Iterator[None]:
    """Raise a ``ValueError`` before a tensor is made that is too large for a file of this size.

    Examples
    --------
    >>> with limited_allocation(1000):
    ...     torch.zeros(10**12)
    Traceback (most recent call last):
    ValueError: its structure asks for a tensor of 4e+12 bytes, but the whole file has 1,000
    """
    with _Limit(file_bytes):
        yield


class _Limit(TorchDispatchMode):
    """Runs every operation on shapes first, and refuses it if its result is too large."""

    def __init__(self, file_bytes: int) -> None:
        super().__init__()
        self.file_bytes, self.so_far = file_bytes, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        sizes = _sizes(func, args, kwargs or {})
        self.so_far += sum(max(size, _MIN_COUNTED) for size in sizes)
        if max(sizes, default=0) > _TIMES * self.file_bytes + _MORE:
            self._refuse(f"a tensor of {max(sizes):.3g} bytes")
        if self.so_far > _TIMES_IN_ALL * self.file_bytes + _MORE_IN_ALL:
            self._refuse(f"more than {self.so_far:.3g} bytes in all")
        return func(*args, **kwargs or {})

    def _refuse(self, what: str) -> None:
        raise ValueError(
            f"its structure asks for {what}, but the whole file has {self.file_bytes:,}"
        )


def _sizes(func: Any, args: tuple, kwargs: dict) -> list[int]:
    """Bytes of the tensors that an operation returns, if they follow from shapes."""
    given, options = tree_map_only(Tensor, lambda tensor: tensor.to("meta"), (args, kwargs))
    if any(argument.name == "device" for argument in func._schema.arguments):
        options = options | {"device": torch.device("meta"), "pin_memory": None}
        options = {
            name: value
            for name, value in options.items()
            if any(argument.name == name for argument in func._schema.arguments)
        }
    try:
        made = func(*given, **options)
    except (NotImplementedError, RuntimeError):
        return []  # the size depends on values in the arguments, which are in memory already
    return [
        math.prod(leaf.shape) * leaf.element_size()
        for leaf in tree_leaves(made)
        if isinstance(leaf, Tensor)
    ]
