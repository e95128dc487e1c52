"""Checkpoints: the whole state of a training run in a file, from which it resumes bit for bit."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from numbers import Integral
from pathlib import Path
from types import FrameType
from typing import Any

from pyro_crowdclust.errors import warn
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
from pyro_crowdclust.training.settling import Settling
from pyro_crowdclust.training.trainer import Trainer

# The largest number of characters of a setting that are shown in an error.
_MAX_CHARACTERS = 80


@dataclass(frozen=True)
class Checkpoint:
    """A file for the whole state of a training run, written after epochs, at Ctrl-C and SIGTERM.

    Attributes
    ----------
    path
        The file.
    every
        Also write the file within epochs: after this number of steps, or this time; None for the
        ends of epochs only.
    resume
        Resume from the file if it exists, with the same result, bit for bit, as if the run had
        never been stopped; start anew if it does not. Data and settings must be those of the
        stopped run, except for the budget and the number of processes.
    """

    path: str | os.PathLike
    every: int | timedelta | None = timedelta(minutes=5)
    resume: bool = False


class CheckpointKeeper:
    """Writes the checkpoint of a training run, and resumes a run from it.

    Parameters
    ----------
    checkpoint
        The file, and when it is written.
    fingerprint
        Texts that must equal those in the file when a run is resumed.

    Raises
    ------
    ValueError
        If nothing can be written at ``path``, if the file there is no checkpoint, or one of other
        data or settings, or if ``every`` is neither a number of steps nor a time.
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

    def begin(
        self, trainer: Trainer, callbacks: Sequence[Callback], settling: Settling | None = None
    ) -> None:
        """Resume the run from the file, if there is one, and check that a new one can be written.

        Raises
        ------
        ValueError
            If the checkpoint is of another model or guide, or if the disk has no room.
        """
        self.trainer, self.callbacks, self.settling = trainer, callbacks, settling
        num_bytes = sum(tensor.nbytes for tensor in trainer.tensors().values())
        # Parameters, two moments of Adam, the parameters at the start of the epoch, and the rest.
        if trainer.ranks.is_first:
            check_room(self.path, 4 * num_bytes + 2**20)
        seconds = 0.0
        if self._state is not None:
            try:
                restore(trainer, callbacks, settling, self._state["trainer"])
            except UNREADABLE as error:
                raise ValueError(
                    f"the checkpoint {self.path} is of another model or guide ({error}): remove "
                    "it, or resume with the model and guide that it was made with"
                ) from error
            seconds = self._state["seconds"]
            self._state = None
        self.started = time.perf_counter() - seconds
        self._written_at_step, self._written_at = trainer.steps_done, time.perf_counter()

    @property
    def seconds(self) -> float:
        """Time of the fit so far, including that before it was resumed."""
        return time.perf_counter() - self.started

    def after_step(self) -> None:
        """Write the file if it is due, or if a signal is waiting, which is then delivered."""
        if self._pending is not None or self._is_due():
            self.write()
        if self._pending is not None:
            self._deliver()

    def after_epoch(self) -> None:
        """Write the file, and deliver a waiting signal."""
        self.write()
        if self._pending is not None:
            self._deliver()

    def _is_due(self) -> bool:
        if isinstance(self.every, timedelta):
            return time.perf_counter() - self._written_at >= self.every.total_seconds()
        return (
            self.every is not None and self.trainer.steps_done - self._written_at_step >= self.every
        )

    def write(self) -> None:
        """Write the file; if that is not possible, warn, since training can still go on."""
        if not self.trainer.ranks.is_first:
            return
        state = {
            "fingerprint": self.fingerprint,
            "seconds": self.seconds,
            "trainer": state_of(self.trainer, self.callbacks, self.settling),
        }
        try:
            write_file(self.path, "checkpoint", state)
        except NotDescribable as error:
            raise ValueError(
                f"the checkpoint cannot be written: {error}. Callbacks may add numbers and texts "
                "to the history, and return plain values and tensors from state_dict()"
            ) from error
        except OSError as error:
            warn(
                f"the checkpoint of step {self.trainer.steps_done} could not be written at "
                f"{self.path} ({error.strerror or error}); training goes on, and the previous "
                "checkpoint is kept: free disk space for the next one"
            )
        self._written_at_step, self._written_at = self.trainer.steps_done, time.perf_counter()

    _pending: int | None = None
    _handlers: dict[int, Any]

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Let Ctrl-C and SIGTERM wait for the end of the step, and for the file.

        In the middle of a step there is no consistent state to be written. After the file is
        written, the signal is passed to its previous handler. A second signal does not wait. One
        that arrives after the last step is passed on at the end of the block.
        """
        self._handlers = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(number)
                if handler not in (None, signal.SIG_IGN):
                    self._handlers[number] = handler
                    signal.signal(number, self._handle)
        try:
            yield
        finally:
            self._deliver()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        is_second = self._pending is not None
        self._pending = max(self._pending or 0, number)  # SIGTERM, if both came
        if is_second:
            self._deliver()

    def _deliver(self) -> None:
        number, self._pending = self._pending, None
        self._restore_handlers()
        if number is not None:
            signal.raise_signal(number)

    def _restore_handlers(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)


def _checked_interval(every: int | timedelta | None) -> int | timedelta | None:
    is_steps = isinstance(every, Integral) and not isinstance(every, bool) and every >= 1
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
            f"the checkpoint {path} was made with other data: pass these data, another file as "
            "checkpoint, or resume=False to start anew"
        )
    shown = "; ".join(_difference(name, found.get(name), needed[name]) for name in differing)
    raise ValueError(
        f"the checkpoint {path} was made with other settings: {shown}. Pass those settings, "
        "another file as checkpoint, or resume=False to start anew"
    )


def _difference(name: str, before: str | None, now: str) -> str:
    """Both texts; long ones are cut around the place where they begin to differ."""
    before = "nothing" if before is None else before
    start = 0
    if max(len(before), len(now)) > _MAX_CHARACTERS:
        start = max(0, len(os.path.commonprefix([before, now])) - _MAX_CHARACTERS // 2)
    was, is_now = (("..." if start else "") + text[start:] for text in (before, now))
    was, is_now = (
        text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."
        for text in (was, is_now)
    )
    return f"{name} was {was or 'empty'} and is {is_now or 'empty'}"
