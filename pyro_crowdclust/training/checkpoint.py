"""Checkpoints: all of a training run in one file, from which it goes on bit for bit."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

from pyro_crowdclust.files.description import NotDescribable
from pyro_crowdclust.files.safetensors_file import (
    UNREADABLE,
    check_replaceable,
    kind_of_file,
    read_file,
    write_file,
)
from pyro_crowdclust.files.writing import check_room
from pyro_crowdclust.training.callback import Callback
from pyro_crowdclust.training.run_state import check_state, restore, state_of
from pyro_crowdclust.training.trainer import Trainer

# Of settings that differ so many characters are shown.
_LONGEST = 80


@dataclass(frozen=True)
class Checkpoint:
    """A file to write all of a training run to, after every epoch, and at Ctrl-C and SIGTERM.

    Attributes
    ----------
    path
        The file.
    every
        Write it in the middle of epochs, too: after so many steps, or so much time; None for the
        ends of epochs alone.
    resume
        Go on from the file if it is there, with the same answer, bit for bit, as if the run had
        never been stopped; start anew if it is not. Data and settings must be those of the stopped
        run, but for the budget and the number of processes.
    """

    path: str | os.PathLike
    every: int | timedelta | None = timedelta(minutes=5)
    resume: bool = False


class CheckpointKeeper:
    """When and where a training run is written, and how it goes on.

    Parameters
    ----------
    checkpoint
        The file, and when it is written.
    fingerprint
        Texts that must be the same in the run that the file is of.

    Raises
    ------
    ValueError
        If nothing can be written at ``path``, if there is a file that is no checkpoint or one of
        other data or settings, or if ``every`` is neither a number of steps nor a time.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        fingerprint: dict[str, str],
    ) -> None:
        self.path = Path(checkpoint.path)
        self.fingerprint = fingerprint
        self.every = _checked_interval(checkpoint.every)
        check_room(self.path, 1)
        if not checkpoint.resume or kind_of_file(self.path) is None:
            check_replaceable(self.path, "checkpoint", "remove it, or name another file")
        self._state = None
        if checkpoint.resume and self.path.exists():
            self._state = read_file(self.path, "checkpoint")
            try:
                check_state(self._state)
            except UNREADABLE as error:
                what = f"it lacks {error}" if isinstance(error, KeyError) else error
                raise ValueError(
                    f"the checkpoint {self.path} is damaged ({what}): remove it, or get a whole "
                    "copy of it"
                ) from error
            _check_fingerprint(self.path, self._state["fingerprint"], fingerprint)

    def begin(self, trainer: Trainer, callbacks: Sequence[Callback]) -> None:
        """Take up a run from the file, and make sure that there is room for the next one.

        Raises
        ------
        ValueError
            If the checkpoint is of another model or guide, or if there is no room.
        """
        self.trainer, self.callbacks = trainer, callbacks
        num_bytes = sum(tensor.nbytes for tensor in trainer.tensors().values())
        # Parameters, two moments of Adam, the parameters at the start of the epoch, and the rest.
        if trainer.ranks.is_first:
            check_room(self.path, 4 * num_bytes + 2**20)
        seconds = 0.0
        if self._state is not None:
            try:
                restore(trainer, callbacks, self._state["trainer"])
            except UNREADABLE as error:
                raise ValueError(
                    f"the checkpoint {self.path} does not fit this fit ({error}): remove it, or go "
                    "on with the model and guide that it was made with"
                ) from error
            seconds = self._state["seconds"]
            self._state = None
        self.started = time.perf_counter() - seconds
        self._written_at_step, self._written_at = trainer.steps_done, time.perf_counter()

    @property
    def seconds(self) -> float:
        """Time of the whole fit up to now, in this process and before."""
        return time.perf_counter() - self.started

    def after_step(self) -> None:
        """Write the file if it is time to, or if the process is asked to end."""
        if self._heard is not None or self._is_due():
            self.write()
        if self._heard is not None:
            self._deliver()

    def after_epoch(self) -> None:
        """Write the file."""
        self.write()
        if self._heard is not None:
            self._deliver()

    def _is_due(self) -> bool:
        if isinstance(self.every, timedelta):
            return time.perf_counter() - self._written_at >= self.every.total_seconds()
        return (
            self.every is not None and self.trainer.steps_done - self._written_at_step >= self.every
        )

    def write(self) -> None:
        """Write the file; a warning if that is not possible, for training can still go on."""
        if not self.trainer.ranks.is_first:
            return
        state = {
            "fingerprint": self.fingerprint,
            "seconds": self.seconds,
            "trainer": state_of(self.trainer, self.callbacks),
        }
        try:
            write_file(self.path, "checkpoint", state)
        except NotDescribable as error:
            raise ValueError(
                f"the checkpoint cannot hold this: {error}. Callbacks may put numbers and texts in "
                "the history, and return plain values and tensors from state_dict()"
            ) from error
        except OSError as error:
            warnings.warn(
                f"no checkpoint of step {self.trainer.steps_done} at {self.path} "
                f"({error.strerror or error}); training goes on, and the last one is kept: make "
                "room",
                stacklevel=3,
            )
        self._written_at_step, self._written_at = self.trainer.steps_done, time.perf_counter()

    _heard: int | None = None
    _handlers: dict[int, Any]

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Let Ctrl-C and SIGTERM wait for the end of the step, and for the file.

        Between two halves of a step there is nothing whole to be written. When the file is, the
        signal is delivered again to whoever heard it before. A second one is not made to wait.
        """
        self._handlers = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(number)
                if handler not in (None, signal.SIG_IGN):
                    self._handlers[number] = handler
                    signal.signal(number, self._hear)
        try:
            yield
        finally:
            self._stop_listening()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._heard is None:
            self._heard = number
        else:
            self._deliver()

    def _deliver(self) -> None:
        number, self._heard = self._heard, None
        self._stop_listening()
        if number is not None:
            signal.raise_signal(number)

    def _stop_listening(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)


def _checked_interval(every: int | timedelta | None) -> int | timedelta | None:
    is_steps = isinstance(every, int) and not isinstance(every, bool) and every >= 1
    is_time = isinstance(every, timedelta) and every > timedelta(0)
    if every is not None and not is_steps and not is_time:
        raise ValueError(
            f"Checkpoint.every is {every!r}, but must be a number of steps, at least 1, or a time "
            "such as datetime.timedelta(minutes=10)"
        )
    return every


def _check_fingerprint(path: Path, found: dict[str, str], needed: dict[str, str]) -> None:
    differing = [name for name, value in needed.items() if found.get(name) != value]
    if not differing:
        return
    if "data" in differing:
        raise ValueError(
            f"the checkpoint {path} is of other data: give fit the data that it was made with, "
            "another file as checkpoint, or resume=False to start anew"
        )
    shown = "; ".join(_difference(name, found.get(name), needed[name]) for name in differing)
    raise ValueError(
        f"the checkpoint {path} is of other settings: {shown}. Give fit those that it was made "
        "with, another file as checkpoint, or resume=False to start anew"
    )


def _difference(name: str, before: str | None, now: str) -> str:
    """Both texts; of long ones only what follows after they begin to differ."""
    before = "nothing" if before is None else before
    start = 0
    if max(len(before), len(now)) > _LONGEST:
        start = max(0, len(os.path.commonprefix([before, now])) - _LONGEST // 2)
    was, is_now = (("..." if start else "") + text[start:] for text in (before, now))
    was, is_now = (
        text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..." for text in (was, is_now)
    )
    return f"{name} was {was} and is {is_now}"
