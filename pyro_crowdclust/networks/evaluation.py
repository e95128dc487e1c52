"""Networks in evaluation mode, while they are read and not trained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyro_crowdclust.protocols import module_of


@contextmanager
def evaluating(*parts: Any) -> Iterator[None]:
    """All modules of some parts in evaluation mode for the time of the block, then as they were.

    In training mode dropout draws, and a batch normalization makes what it says of an item depend
    on the others in its batch, and changes by being asked.

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
    roots = [root for root in map(module_of, parts) if root is not None]
    modules = dict.fromkeys(module for root in roots for module in root.modules())
    training = [module for module in modules if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
