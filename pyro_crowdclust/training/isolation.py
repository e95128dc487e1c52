"""Random numbers and a parameter store that one fit has to itself.

Pyro's parameter store and stack of handlers, and torch's random numbers, belong to the whole
process. So whatever computes with them here does so alone: another thread waits until it is done.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyro
import torch

# Reentrant: a callback may call fit, and a result may be read inside ``Fitted.inside``.
_turn = threading.RLock()


def _forget_other_threads() -> None:
    """In a forked process nobody else is left to give the turn back."""
    global _turn
    _turn = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


@contextmanager
def own_random_numbers(seed: int | None = None) -> Iterator[None]:
    """The process's random numbers for the time of the block, as they were before afterwards.

    Other threads that ask for them wait.
    """
    with _turn, torch.random.fork_rng():
        if seed is not None:
            _seed(seed)
        yield


def _seed(seed: int) -> None:
    """``torch.manual_seed``, which without an accelerator formats the whole stack for later."""
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


@contextmanager
def isolated(seed: int) -> Iterator[tuple[torch.Generator, Any]]:
    """Own random numbers and an own Pyro parameter store, for the time of the block.

    Yields the generator of the minibatches and the store's state, which can be entered again.
    """
    with own_random_numbers(seed), pyro.get_param_store().scope() as store:
        yield torch.Generator().manual_seed(seed), store
