"""Isolation of fits from each other: random numbers, number of threads and parameter store.

Pyro's parameter store and stack of handlers, torch's random numbers and its number of threads
belong to the whole process. Computations that use them here therefore exclude each other: another
thread waits until the first one is done.
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
from pyro_crowdclust.protocols import modules_of

# Up to this many features and answers, two free cores take as long as one.
_MAX_NUMBERS_OF_ONE_THREAD = 200_000

# Reentrant: a callback may call fit, and a result may be read inside ``Fitted.inside``.
_turn = threading.RLock()


def _forget_other_threads() -> None:
    """Release the lock in a forked process, where the thread that held it does not exist."""
    global _turn
    _turn = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


@contextmanager
def own_random_numbers(seed: int | None = None) -> Iterator[None]:
    """Use the process's random numbers within the block, and restore their state afterwards.

    Other threads that call this wait.
    """
    with _turn, torch.random.fork_rng():
        if seed is not None:
            _seed(seed)
        yield


def _seed(seed: int) -> None:
    """``torch.manual_seed``, but faster without an accelerator: torch formats the stack then."""
    seed = operator.index(seed)  # torch does not accept NumPy's integers
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def generator_of(seed: int) -> torch.Generator:
    """A generator with a seed, which may be one of NumPy's integers.

    Examples
    --------
    >>> generator_of(3).initial_seed()
    3
    """
    return torch.Generator().manual_seed(operator.index(seed))


@contextmanager
def isolated(seed: int) -> Iterator[tuple[torch.Generator, Any]]:
    """Use separate random numbers and a separate Pyro parameter store within the block.

    Yields the generator of the minibatches and the store's state, which can be entered again.
    Gradients are recorded even if the caller has switched them off, for embeddings for example.
    """
    with (
        own_random_numbers(seed),
        pyro.get_param_store().scope() as store,
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        yield generator_of(seed), store


class _OwnStore(_Context):
    """The context of a called Pyro module, extended to use the parameter store of a fit.

    A called module reads its parameters by name from the store of the process, in which those of
    another fit have the same names. Modules enter this context in calls as well as in methods,
    and Pyro and torch have no public hook for the latter.
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
        """Set the attribute ``unconstrained`` that SVI needs, which is lost when a scope ends."""
        for parameter in self._state["params"].values():
            parameter.unconstrained = weakref.ref(parameter)


def keep_store(state: Any, *parts: Any) -> None:
    """Let the Pyro modules in some parts read this store, inside and outside of its scope."""
    _give_contexts(parts, lambda: _OwnStore(state))


def share_store(*parts: Any) -> None:
    """Let the Pyro modules in some parts read the store of the process, as is Pyro's default."""
    _give_contexts(parts, _Context)


def _give_contexts(parts: tuple[Any, ...], make: Callable[[], _Context]) -> None:
    """Set new contexts; modules that shared one, because they have one root, share the new one."""
    new: dict[_Context, _Context] = {}
    for module in modules_of(*parts):
        if isinstance(module, PyroModule):
            old = module._pyro_context
            if old not in new:
                new[old] = make()
                new[old].used = old.used
            module._pyro_context = new[old]


@contextmanager
def threads_for(data: CrowdData) -> Iterator[None]:
    """Use one thread within the block if the data are small; otherwise as many as torch has set.

    Torch splits even small matrices among threads, which then wait for each other: this saves no
    time on free cores, and takes several times as long if another process uses one of them.
    """
    with _turn:
        before = torch.get_num_threads()
        if is_small(data):
            torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def is_small(data: CrowdData) -> bool:
    """Whether there are at most 200,000 features, answers, placements and numbers of likeness."""
    features = 0 if data.features is None else math.prod(data.features.shape)
    placements = 0 if data.placements is None else len(data.placements)
    likeness = 0 if data.likeness is None else data.likeness.values.numel()
    answers = data.num_pairs + data.num_labels + placements
    return features + answers + likeness <= _MAX_NUMBERS_OF_ONE_THREAD
