"""Checkpoints: a stopped fit goes on to the same answer, bit for bit, or says why it cannot."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache, partial
from pathlib import Path

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.callbacks import MergeMoves
from pyro_crowdclust.files.safetensors_file import read_file, write_file
from pyro_crowdclust.minibatches import AnswerSampling, Batch
from pyro_crowdclust.training import Checkpoint, Stopping

from ..crowds import crowd, message_passing_pair, plain_pair, quiet_fit
from ..killed_fit import FITS, Draws, in_step, run
from ..problems import location_guide, location_model
from ..refusals import refuses
from ..same_fits import equal, parameters

ROOT = Path(__file__).resolve().parents[2]


def same(one: Fitted, other: Fitted) -> bool:
    """Whether two fits agree bit for bit, whatever their guide can tell."""
    histories = [result.history.drop(columns="seconds") for result in (one, other)]
    stores = [result.parameter_store["params"] for result in (one, other)]
    modules = [
        [part for part in (result.model, result.guide) if isinstance(part, torch.nn.Module)]
        for result in (one, other)
    ]
    return (
        equal(parameters(*modules[0]), parameters(*modules[1]))
        and equal(*stores)
        and histories[0].equals(histories[1])
        and one.stop_reason == other.stop_reason
        and one.elbo == other.elbo
    )


@cache
def uninterrupted(kind: str) -> Fitted:
    return run(kind)


class Stop(Exception):
    """Ends a process as far as ``fit`` can tell: nobody hears it."""


def stop() -> None:
    raise Stop


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "fit.safetensors"


def stopped(kind: str, path: Path, step: int, every=timedelta(minutes=5), **options) -> None:
    """Run until the middle of a step."""
    with pytest.raises(Stop):
        run(kind, step, stop, checkpoint=Checkpoint(path, every), **options)


def steps_in(path: Path) -> int:
    return read_file(path, "checkpoint")["trainer"]["steps_done"]


def per_epoch(kind: str) -> int:
    last = uninterrupted(kind).history.iloc[-1]
    return int(last["step"] / last["epoch"])


@pytest.mark.long
def test_killed_in_the_middle_of_an_epoch(tmp_path):
    """A real process, really killed: no time to say goodbye."""
    kind, path = "message passing", tmp_path / "fit"
    steps = per_epoch(kind) + 2  # up to the third step of the second epoch
    child = subprocess.Popen(
        [sys.executable, str(ROOT / "tests" / "killed_fit.py"), kind, str(path), str(steps)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    said = child.stdout.readline()
    child.kill()
    errors = child.communicate()[1]
    assert said == "in the middle of a step\n", errors
    assert child.returncode == -signal.SIGKILL
    found = read_file(path, "checkpoint")["trainer"]
    assert found["steps_done"] == steps
    assert len(found["position"]["elbos"]) == 2
    resumed = run(kind, checkpoint=Checkpoint(path, resume=True))
    assert same(resumed, uninterrupted(kind))


@pytest.mark.long
@pytest.mark.parametrize("kind", FITS)
@pytest.mark.parametrize("where", ["first epoch", "end of an epoch", "last step"])
def test_stopped_anywhere(kind, where, path):
    length = per_epoch(kind)
    step = {"first epoch": 1, "end of an epoch": 2 * length, "last step": 3 * length - 1}[where]
    stopped(kind, path, step, every=1)
    assert steps_in(path) == step
    resumed = run(kind, checkpoint=Checkpoint(path, resume=True))
    assert same(resumed, uninterrupted(kind))


@pytest.mark.parametrize("every", [None, timedelta(hours=1)])
def test_stopped_with_checkpoints_of_whole_epochs(every, path):
    length = per_epoch("message passing")
    stopped("message passing", path, 2 * length - 1, every=every)
    assert steps_in(path) == length
    resumed = run("message passing", checkpoint=Checkpoint(path, resume=True))
    assert same(resumed, uninterrupted("message passing"))


def test_stopped_before_the_first_checkpoint(path):
    stopped("full batch", path, 0)
    assert not path.exists()
    assert same(
        run("full batch", checkpoint=Checkpoint(path, resume=True)), uninterrupted("full batch")
    )


def test_stopped_again_and_again(path):
    for step in (3, 5, 8, 9, 11):
        with pytest.raises(Stop):
            run(
                "message passing",
                step,
                stop,
                checkpoint=Checkpoint(path, every=2, resume=True),
            )
    resumed = run("message passing", checkpoint=Checkpoint(path, resume=True))
    assert same(resumed, uninterrupted("message passing"))


def test_checkpoints_after_some_time(path):
    stopped("message passing", path, 3, every=timedelta(microseconds=1))
    assert steps_in(path) == 3


def test_a_checkpoint_changes_no_answer(path):
    result = run("message passing", checkpoint=Checkpoint(path, every=1))
    assert same(result, uninterrupted("message passing"))
    assert not list(path.parent.glob("*.partial"))


def test_a_finished_fit_is_read_from_its_checkpoint(path):
    first = run("message passing", checkpoint=path)
    again = run("message passing", 0, stop, checkpoint=Checkpoint(path, resume=True))
    assert same(again, first)
    assert again.seconds >= first.history["seconds"].sum()
    assert (again.history["seconds"] == first.history["seconds"]).all()


def test_a_converged_fit_stays_so(path):
    train = partial(run, "full batch", stopping=Stopping(1e-3), epochs=100)
    first = train(checkpoint=path)
    assert first.stop_reason.startswith("converged")
    assert same(train(0, stop, checkpoint=Checkpoint(path, resume=True)), first)


def test_a_larger_budget_goes_on(path):
    run("message passing", checkpoint=path, epochs=1)
    resumed = run("message passing", checkpoint=Checkpoint(path, resume=True))
    assert same(resumed, uninterrupted("message passing"))


@pytest.mark.long
def test_a_run_without_epochs_goes_on_with_some_and_back(path):
    """Only the run without ``epochs`` looks whether the ELBO still rises."""
    options = {"optim": partial(torch.optim.Adam, lr=1e-3), "checkpoint": Checkpoint(path, 1, True)}
    train = partial(run, "message passing", **options)
    press = partial(signal.raise_signal, signal.SIGINT)
    assert train(5, press, epochs=None).stop_reason.startswith("interrupted")
    state = read_file(path, "checkpoint")
    state["trainer"]["settling"]["falls"] = 1
    write_file(path, "checkpoint", state)
    assert train(6, press, epochs=None).stop_reason == "interrupted by the user after 7 steps"
    assert read_file(path, "checkpoint")["trainer"]["settling"]["falls"] == 1
    found = train()
    path.unlink()
    assert same(found, train())
    assert read_file(path, "checkpoint")["trainer"]["settling"] is None
    done = len(found.history) * per_epoch("message passing")
    again = train(done, press, epochs=None)
    assert again.stop_reason == f"interrupted by the user after {done + 1} steps"


def test_without_resume_the_fit_starts_anew(path):
    stopped("full batch", path, 2, seed=5)
    assert same(run("full batch", checkpoint=path), uninterrupted("full batch"))


def test_moves_of_callbacks_are_kept(path):
    merges = MergeMoves()
    merges.moves.append((1, 0, 2, 3.5))
    train = partial(quiet_fit, *plain_pair(), crowd())
    (own,) = train(callbacks=[merges], checkpoint=path).callbacks
    resumed = train(callbacks=[MergeMoves()], checkpoint=Checkpoint(path, resume=True))
    assert resumed.callbacks[0].moves == own.moves
    moves = own.moves
    assert merges.moves == [(1, 0, 2, 3.5)]
    assert moves[0] == (1, 0, 2, 3.5)


def test_a_fit_that_goes_bad_after_it_was_resumed(path):
    """It goes back to the start of the epoch, which was in another process."""
    spoiled = []

    def model(batch: Batch) -> None:
        location_model(batch)
        pyro.factor("penalty", torch.tensor(float("nan") if spoiled else 0.0))

    def train(step: int, action: Callable, **options) -> Fitted:
        with in_step(step, action):
            return quiet_fit(model, location_guide, crowd(), epochs=3, batch_size=10, **options)

    outcomes = []
    length = per_epoch("pyro.param")
    for options in ({}, {"checkpoint": Checkpoint(path, resume=True)}):
        if options:
            spoiled.clear()
            with pytest.raises(Stop):
                train(length + 1, stop, checkpoint=Checkpoint(path, every=1))
            assert steps_in(path) == length + 1
        with pytest.warns(UserWarning, match="not finite after 6 steps: .*'penalty'.*kept"):
            outcomes.append(train(length + 1, lambda: spoiled.append(True), **options))
    one, other = (outcome.parameter_store["params"] for outcome in outcomes)
    assert equal(one, other)


def test_ctrl_c_waits_for_the_end_of_the_step(path):
    result = run("message passing", 5, partial(signal.raise_signal, signal.SIGINT), checkpoint=path)
    assert result.stop_reason == "interrupted by the user after 6 steps"
    assert steps_in(path) == 6
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    resumed = run("message passing", checkpoint=Checkpoint(path, resume=True))
    assert same(resumed, uninterrupted("message passing"))


def test_a_second_ctrl_c_does_not_wait(path):
    def press_twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    result = run("message passing", 5, press_twice, checkpoint=path)
    assert result.stop_reason == "interrupted by the user after 6 steps"
    assert steps_in(path) == per_epoch("message passing")
    resumed = run("message passing", checkpoint=Checkpoint(path, resume=True))
    assert same(resumed, uninterrupted("message passing"))


def test_ctrl_c_while_callbacks_run(path):
    def press(trainer) -> None:
        if trainer.epochs_done == 2:
            signal.raise_signal(signal.SIGINT)

    train = partial(run, "full batch", callbacks=[press])
    assert train(checkpoint=path).stop_reason == "interrupted by the user after 2 steps"
    assert steps_in(path) == 2
    resumed = train(checkpoint=Checkpoint(path, resume=True))
    assert resumed.stop_reason == uninterrupted("full batch").stop_reason


def test_sigterm_reaches_whoever_heard_it_before(path):
    class Asked(Exception):
        pass

    def end(number, frame):
        raise Asked

    before = signal.signal(signal.SIGTERM, end)
    try:
        with pytest.raises(Asked):
            run("full batch", 1, partial(signal.raise_signal, signal.SIGTERM), checkpoint=path)
        assert signal.getsignal(signal.SIGTERM) is end
    finally:
        signal.signal(signal.SIGTERM, before)
    assert steps_in(path) == 2
    assert same(
        run("full batch", checkpoint=Checkpoint(path, resume=True)), uninterrupted("full batch")
    )


class Places:
    """The places of the loop at which code of a user is run; a signal arrives at one of them."""

    def __init__(self, place: str, number: int) -> None:
        self.place, self.number = place, number

    def reach(self, place: str) -> None:
        if place == self.place:
            self.place = "passed"
            signal.raise_signal(self.number)


PLACES = ["step", "last step", "callback", "written", "judged", "converged", "not finite"]


def fit_with_signal(place: str, number: int, path: Path) -> Fitted:
    """A fit of three epochs, at a place of which a signal arrives."""
    places = Places(place, number)

    class Watching:
        def __call__(self, trainer) -> None:
            places.reach("callback")

        def state_dict(self) -> dict:
            places.reach("written")
            return {}

        def load_state_dict(self, state: dict) -> None:
            pass

    class Judging(Stopping):
        def has_converged(self, elbos_per_item) -> bool:
            converged = len(elbos_per_item) == 3
            places.reach("converged" if converged else "judged")
            return converged

    def model(batch: Batch) -> None:
        location_model(batch)
        steps.append(place)
        places.reach(
            {2: "step", 4: "last step"}.get(len(steps), "any")
        )  # one is a check of the sites
        if place == "not finite" and len(steps) > 2:
            places.reach("not finite")
            pyro.factor("wrong", torch.tensor(torch.nan))

    steps: list[str] = []
    return quiet_fit(
        model,
        location_guide,
        CrowdData(torch.zeros(9, 1)),
        batch_size=None,
        callbacks=[Watching()],
        stopping=Judging(),
        epochs=None,
        checkpoint=path,
    )


@pytest.mark.filterwarnings("ignore:not finite")
@pytest.mark.parametrize("place", PLACES)
def test_no_signal_is_lost_wherever_it_arrives(place, path):
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        fit_with_signal(place, signal.SIGTERM, path)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]
    result = fit_with_signal(place, signal.SIGINT, path)
    assert result.stop_reason.startswith("interrupted by the user after")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_sigterm_is_heard_where_ctrl_c_came_before(path):
    def send_both() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)

    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        run("full batch", 1, send_both, checkpoint=path)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]


def test_a_fit_in_another_thread_has_checkpoints_too(path):
    outcomes = []

    def train() -> None:
        torch.set_default_dtype(torch.float64)
        outcomes.append(run("full batch", checkpoint=path))

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert same(outcomes[0], uninterrupted("full batch"))
    assert steps_in(path) == 3


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"seed": 1}, "seed was 0 and is 1"),
        ({"batch_size": 9}, "batch_size was 10 and is 9"),
        ({"step_size": 0.2}, "step_size was 0.3 and is 0.2"),
        ({"callbacks": []}, "callbacks was .*MergeMoves.* and is empty"),
        ({"optim": torch.optim.SGD}, "optim was .*Adam.*lr.* and is .*SGD"),
        ({"answer_sampling": AnswerSampling(60)}, "answer_sampling was .*30.* and is .*60"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_other_settings(options, named, path):
    stopped("message passing", path, 1, every=1)
    with refuses(f"with other settings: {named}.*resume=False to start anew"):
        quiet = {"callbacks": [MergeMoves(), Draws()], "batch_size": 10, "step_size": 0.3}
        options = quiet | options | {"checkpoint": Checkpoint(path, resume=True)}
        quiet_fit(*message_passing_pair(), crowd(), epochs=3, **options)


def test_other_data(path):
    data = crowd()
    stopped("full batch", path, 1)
    features, pairs = data.features.copy(), data.pairs
    features[7, 2] += 1e-9
    flipped = pairs.assign(label=[1 - pairs["label"].iloc[0], *pairs["label"].iloc[1:]])
    renamed = pairs.assign(worker=pairs["worker"].map({0: "ann", 1: "ben", 2: "cat"}))
    for other in (
        CrowdData(features, pairs),
        CrowdData(data.features, flipped),
        CrowdData(data.features, renamed),
        CrowdData(data.features, pairs.drop(columns="page").drop_duplicates()),
    ):
        with refuses("with other data: pass these data"):
            run("full batch", data=other, checkpoint=Checkpoint(path, resume=True))
    copied = CrowdData(data.features.copy(), pairs.copy())
    run("full batch", data=copied, checkpoint=Checkpoint(path, resume=True))


def test_another_model(path, monkeypatch):
    stopped("pyro.param", path, 2, every=1)
    with monkeypatch.context() as patch:
        patch.setattr(location_guide, "__qualname__", "other_guide")
        with refuses("guide was tests.problems.location_guide and is tests.*other_guide"):
            run("pyro.param", checkpoint=Checkpoint(path, resume=True))

    def location_guide_of_another_size(batch: Batch) -> None:
        loc = pyro.param("loc", torch.zeros(2))
        pyro.sample("mean", dist.Normal(loc.sum(), 1.0))

    location_guide_of_another_size.__qualname__ = location_guide.__qualname__
    location_guide_of_another_size.__module__ = location_guide.__module__
    options = {"epochs": 3, "batch_size": 10, "step_size": 0.3, **FITS["pyro.param"][1]}
    with refuses(r"is of another model or guide \(store.scale is only in the file .*remove it"):
        quiet_fit(
            *(location_model, location_guide_of_another_size, crowd()),
            **(options | {"checkpoint": Checkpoint(path, resume=True)}),
        )


@pytest.mark.parametrize("every", [0, 2.5, True, timedelta(0), "5 minutes"])
def test_intervals(every, path):
    with refuses("Checkpoint.every is .* must be a number of steps, at least 1, or a time"):
        quiet_fit(*plain_pair(), crowd(), checkpoint=Checkpoint(path, every=every))


def test_an_interval_may_be_a_whole_number_of_numpy(path):
    quiet_fit(*plain_pair(), crowd(), checkpoint=Checkpoint(path, every=np.int64(1)))
    assert path.exists()


def test_files_that_are_something_else_are_not_written_over(path):
    path.write_text("item,worker\n")
    for resume in (False, True):
        with refuses("exists already and is not a checkpoint.*remove it, or name another file"):
            run("full batch", 0, stop, checkpoint=Checkpoint(path, resume=resume))
    assert path.read_text() == "item,worker\n"


def test_folders_are_looked_at_first(tmp_path, path):
    path.write_text("")
    for place, message in [
        (tmp_path, "is a folder: name a file in it"),
        (tmp_path / "no" / "fit", "there is no folder .*no to write fit in: make it first"),
        (path / "fit", "there is no folder"),
        (Path("/proc/fit"), "cannot write 0.0 MB at /proc/fit .*free disk space, or name a file"),
    ]:
        with refuses(message):
            run("full batch", 0, stop, checkpoint=place)


@contextmanager
def nearly_full_disk() -> Iterator[Callable[[int], None]]:
    """What limits the size of files, until the end: pytest writes its own after a test."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_is_said_before_training(path):
    with nearly_full_disk() as limit_size:
        limit_size(50_000)
        with refuses(r"cannot write 1\.\d MB at .*File too large.*free disk space"):
            run("message passing", 0, stop, checkpoint=path)
    assert not list(path.parent.glob("*.partial"))


def test_a_disk_that_fills_up_does_not_stop_training(path):
    def fill(trainer) -> None:
        if trainer.epochs_done == 3:
            limit_size(10)

    says = pytest.warns(
        UserWarning,
        match="checkpoint of step 3 could not be written at .*File too large.*free disk space",
    )
    with nearly_full_disk() as limit_size, says:
        result = run("full batch", checkpoint=path, callbacks=[fill])
    assert steps_in(path) == 2
    assert not list(path.parent.glob("*.partial"))
    assert equal(parameters(result.guide), parameters(uninterrupted("full batch").guide))


def test_what_a_checkpoint_cannot_hold(path):
    def draw(trainer) -> None:
        trainer.history[-1]["figure"] = object()

    with refuses("cannot be written: trainer.history.0.figure is a builtins.object"):
        run("full batch", checkpoint=path, callbacks=[draw])
