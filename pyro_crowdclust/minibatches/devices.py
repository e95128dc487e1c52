"""Where minibatches can be."""

from __future__ import annotations

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
