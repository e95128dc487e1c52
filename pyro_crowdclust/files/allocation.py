"""A bound on what building the content of a file may allocate.

A structure of a few bytes can ask for any number of clusters. What a real one allocates is of the
size of the tensors that lie beside it in the file, so every tensor's size is compared with theirs
before its memory is asked for.
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

# One tensor may be so many times as large as all of the file, and so much larger than that.
_TIMES, _MORE = 4, 2**24
# All together may be; every tensor counts as 16 kB at least, for the time that it takes.
_TIMES_IN_ALL, _MORE_IN_ALL, _SMALLEST = 64, 2**29, 2**14


@contextmanager
def limited_allocation(file_bytes: int) -> Iterator[None]:
    """Raise a ``ValueError`` before a tensor is made that a file of so many bytes cannot need.

    Examples
    --------
    >>> with limited_allocation(1000):
    ...     torch.zeros(10**12)
    Traceback (most recent call last):
    ValueError: its structure asks for a tensor of 4e+12 bytes, but all of the file has 1,000
    """
    with _Limit(file_bytes):
        yield


class _Limit(TorchDispatchMode):
    """Runs every operation on shapes alone first."""

    def __init__(self, file_bytes: int) -> None:
        super().__init__()
        self.file_bytes, self.so_far = file_bytes, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        sizes = _sizes(func, args, kwargs or {})
        self.so_far += sum(max(size, _SMALLEST) for size in sizes)
        if max(sizes, default=0) > _TIMES * self.file_bytes + _MORE:
            self._refuse(f"a tensor of {max(sizes):.3g} bytes")
        if self.so_far > _TIMES_IN_ALL * self.file_bytes + _MORE_IN_ALL:
            self._refuse(f"more than {self.so_far:.3g} bytes in all")
        return func(*args, **kwargs or {})

    def _refuse(self, what: str) -> None:
        raise ValueError(
            f"its structure asks for {what}, but all of the file has {self.file_bytes:,}"
        )


def _sizes(func: Any, args: tuple, kwargs: dict) -> list[int]:
    """Bytes of what an operation returns, so far as its arguments' shapes tell."""
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
        return []  # the numbers in the arguments tell; those lie in memory already
    return [
        math.prod(leaf.shape) * leaf.element_size()
        for leaf in tree_leaves(made)
        if isinstance(leaf, Tensor)
    ]
