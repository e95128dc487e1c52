"""Random numbers, threads and a parameter store that one fit has to itself.

Pyro's parameter store and stack of handlers, torch's random numbers and its number of threads
belong to the whole process. So whatever computes with them here does so alone: another thread waits
until it is done.
"""

from __future__ import annotations

import math
import operator
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any

import pyro
import torch
from pyro.nn.module import PyroModule, _Context

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.protocols import module_of

# Up to so many numbers of features and answers, two free cores take as long as one.
_FEW_NUMBERS = 200_000

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
    seed = operator.index(seed)  # torch takes no integers of NumPy
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def generator_of(seed: int) -> torch.Generator:
    """A generator that begins at a seed, an integer of NumPy's as well.

    Examples
    --------
    >>> generator_of(3).initial_seed()
    3
    """
    return torch.Generator().manual_seed(operator.index(seed))


@contextmanager
def isolated(seed: int) -> Iterator[tuple[torch.Generator, Any]]:
    """Own random numbers and an own Pyro parameter store, for the time of the block.

    Yields the generator of the minibatches and the store's state, which can be entered again.
    Gradients are recorded, also where somebody has switched them off for embeddings.
    """
    with (
        own_random_numbers(seed),
        pyro.get_param_store().scope() as store,
        torch.enable_grad(),
    ):
        yield generator_of(seed), store


class _OwnStore(_Context):
    """What a Pyro module enters when it is called, with the parameter store of a fit in it.

    A called module reads its parameters by their names from the store of the process, where those
    of another fit have the same names. It enters its context in its methods as in its calls, which
    no public hook of Pyro or torch is told of.
    """

    def __init__(self, state: Any) -> None:
        super().__init__()
        self._state = state
        self._scope: AbstractContextManager | None = None

    def __enter__(self) -> None:
        _turn.acquire()
        if self._scope is None:
            self._scope = pyro.get_param_store().scope(self._state)
            self._scope.__enter__()
        super().__enter__()

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            super().__exit__(type, value, traceback)
            if self._scope is not None and not self.active:
                scope, self._scope = self._scope, None
                scope.__exit__(type, value, traceback)
                if torch.is_grad_enabled():
                    self._mark()
        finally:
            _turn.release()

    def _mark(self) -> None:
        """Have parameters know themselves, as SVI asks them to; a scope that ends forgets it."""
        for parameter in self._state["params"].values():
            parameter.unconstrained = weakref.ref(parameter)


def keep_store(state: Any, *parts: Any) -> None:
    """Have the Pyro modules in some parts read this store, inside and outside of its scope."""
    _give_contexts(parts, lambda: _OwnStore(state))


def share_store(*parts: Any) -> None:
    """Have them read the store of the process, as Pyro modules do."""
    _give_contexts(parts, _Context)


def _give_contexts(parts: tuple[Any, ...], make: Callable[[], _Context]) -> None:
    """New contexts; modules that shared one, those of one root, share the new one."""
    roots = [root for root in map(module_of, parts) if root is not None]
    modules = dict.fromkeys(module for root in roots for module in root.modules())
    new: dict[_Context, _Context] = {}
    for module in modules:
        if isinstance(module, PyroModule):
            old = module._pyro_context
            if old not in new:
                new[old] = make()
                new[old].used = old.used
            module._pyro_context = new[old]


@contextmanager
def threads_for(data: CrowdData) -> Iterator[None]:
    """One thread for small data, for the time of the block; for others as many as torch has.

    Matrices of a few numbers are shared among threads, too, which then wait for each other: as long
    as they work on free cores, and several times as long where a neighbour holds one.
    """
    with _turn:
        before = torch.get_num_threads()
        if _count_numbers(data) <= _FEW_NUMBERS:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _count_numbers(data: CrowdData) -> int:
    """Of features and answers."""
    features = 0 if data.features is None else math.prod(data.features.shape)
    labels = 0 if data.class_labels is None else len(data.class_labels)
    return features + data.num_pairs + labels
