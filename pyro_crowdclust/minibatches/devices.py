"""Devices of minibatches, models and guides: a check, and a temporary move."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from pyro_crowdclust.errors import first_line


def check_device(device: Any) -> None:
    """Raise a ``ValueError`` unless torch knows the device and can use it; None is accepted.

    Examples
    --------
    >>> check_device("graphics")
    Traceback (most recent call last):
    ValueError: device is 'graphics', but must be one that torch knows, such as 'cpu' or 'cuda'
    """
    if device is None:
        return
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"device is {device!r}, but must be one that torch knows, such as 'cpu' or 'cuda'"
        ) from error
    try:
        torch.empty(0, device=found)
    except Exception as error:  # every kind of device raises other errors
        raise ValueError(
            f"device is {device!r}, which torch cannot use here ({first_line(error)}): leave out "
            "device to train on the CPU"
        ) from error


@contextmanager
def on_device(device: str | torch.device | None, *modules: Any) -> Iterator[None]:
    """Move modules to a device within the block, and back afterwards; None does not move them.

    Starts run on the CPU, where all features are, but their steps on minibatches need not.

    Raises
    ------
    ValueError
        If torch does not know the device, or cannot use it.
    """
    check_device(device)
    found = [(module, next(module.parameters(), torch.empty(0)).device) for module in modules]
    try:
        for module in modules:
            module.to(device)
        yield
    finally:
        for module, before in found:
            module.to(before)
