"""Evaluation mode of networks outside of training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyro_crowdclust.protocols import modules_of


@contextmanager
def evaluating(*parts: Any) -> Iterator[None]:
    """Put all modules of some parts into evaluation mode within the block, and back afterwards.

    In training mode dropout is random, and with batch normalization the output for an item depends
    on the others in its batch, and every call changes the running statistics.

    Examples
    --------
    >>> from torch import nn
    >>> network = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(3).eval())
    >>> with evaluating(network):
    ...     [module.training for module in network]
    [False, False]
    >>> [module.training for module in network]
    [True, False]
    """
    training = [module for module in modules_of(*parts) if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
