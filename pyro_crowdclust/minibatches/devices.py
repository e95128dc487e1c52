"""Where minibatches, models and guides can be, and a stay elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from pyro_crowdclust.errors import first_line


def check_device(device: Any) -> None:
    """Raise a ``ValueError`` unless torch knows the device and has it here; None is no matter.

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
    except Exception as error:  # every kind of device has errors of its own
        raise ValueError(
            f"device is {device!r}, which torch cannot use here ({first_line(error)}): leave it "
            "out to train on the processor"
        ) from error


@contextmanager
def on_device(device: str | torch.device | None, *modules: Any) -> Iterator[None]:
    """Modules on a device for the time of the block, then where they were; None: where they are.

    Starts run on the processor, where all features are. Steps on minibatches need not.

    Raises
    ------
    ValueError
        If torch does not know the device, or has none here.
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
