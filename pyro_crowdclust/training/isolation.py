"""Random numbers and a parameter store that one fit has to itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyro
import torch


@contextmanager
def isolated(seed: int) -> Iterator[tuple[torch.Generator, dict]]:
    """Own random numbers and an own Pyro parameter store, for the time of the block.

    Yields the generator of the minibatches and the store's state, which can be entered again.
    """
    with torch.random.fork_rng(), pyro.get_param_store().scope() as store:
        torch.manual_seed(seed)
        yield torch.Generator().manual_seed(seed), store
