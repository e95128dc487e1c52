"""Run experiments as commands, read their last line as JSON, and write tables of their figures.

Every experiment has a table on a page of ``docs/results``, between two marker lines. It is written
as soon as its command has ended, so that it is not lost if a later one fails.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"


@dataclass(frozen=True)
class Figure:
    """One row: the requirement, and how to read the measured value from the JSON."""

    name: str
    asked: str
    measured: Callable[[dict[str, Any]], str]


@dataclass(frozen=True)
class Experiment:
    """A command and its figures.

    Attributes
    ----------
    name
        Its name in ``docs/results``, and on the command line.
    command
        Arguments of ``python``. The last line of its output is a JSON object.
    figures
        The rows of the table.
    needs_data
        Whether it reads the folder PYRO_CROWDCLUST_DATA; then ``--data FOLDER`` is added.
    seeds
        Seeds: the command runs once for each, with ``--seed SEED`` added, and the figures get lists
        of values.
    """

    name: str
    command: Sequence[str]
    figures: Sequence[Figure]
    needs_data: bool = False
    seeds: Sequence[int] = ()

    @property
    def shown_command(self) -> str:
        """The command as a reader would type it."""
        seed = [f"--seed {{{','.join(map(str, self.seeds))}}}"] if self.seeds else []
        return " ".join(["python", *self.command, *seed])


def data_folder() -> Path:
    """The folder with the public data sets."""
    return Path(os.environ.get("PYRO_CROWDCLUST_DATA", ROOT.parent / "shared" / "data"))


def measure(experiments: Sequence[Experiment]) -> None:
    """Run the experiments named on the command line, or all, and write a table for each."""
    names = [experiment.name for experiment in experiments]
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument(
        "--logs",
        type=Path,
        help="read the outputs NAME.log, or NAME_SEED.log, of this folder instead of running",
    )
    args = parser.parse_args()
    if unknown := set(args.names) - set(names):
        parser.error(f"no experiment {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    for experiment in experiments:
        if not args.names or experiment.name in args.names:
            write(experiment, args.logs)


def write(experiment: Experiment, logs: Path | None) -> None:
    """Run one experiment and replace its table; without its data the table is not changed."""
    if logs is None and experiment.needs_data and not data_folder().is_dir():
        print(f"skipped {experiment.name}: no folder {data_folder()}")
        return
    started, found = time.perf_counter(), []
    for seed in experiment.seeds or [None]:
        if logs is None:
            lines = _run(experiment, seed)
        else:
            stem = experiment.name if seed is None else f"{experiment.name}_{seed}"
            lines = (logs / f"{stem}.log").read_text(encoding="utf-8").splitlines()
        found.append(json.loads(lines[-1]))
    if experiment.seeds:
        measured = {key: [one[key] for one in found] for key in found[0]}
    else:
        measured = found[0]
    rows = ["| figure | asked | measured |", "| --- | --- | --- |"]
    rows += [
        f"| {figure.name} | {figure.asked} | {figure.measured(measured)} |"
        for figure in experiment.figures
    ]
    when = f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores"
    if logs is None:
        load = os.getloadavg()[0]
        when += f", load {load:.1f}, {time.perf_counter() - started:.0f} s"
    _replace(
        experiment.name, "\n".join([*rows, "", f"`{experiment.shown_command}`", "", f"({when})"])
    )


def _run(experiment: Experiment, seed: int | None) -> list[str]:
    """The lines that the command prints, which are also shown immediately."""
    command = [sys.executable, *experiment.command]
    if experiment.needs_data:
        command += ["--data", str(data_folder())]
    if seed is not None:
        command += ["--seed", str(seed)]
    lines: list[str] = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(experiment.command)} ended with {process.returncode}")
    return lines


def _replace(name: str, text: str) -> None:
    """Replace the text between the markers of a table, on the page that has them."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    for path in RESULTS.glob("*.md"):
        page = path.read_text(encoding="utf-8")
        if begin in page and end in page:
            head, rest = page.split(begin, 1)
            _, tail = rest.split(end, 1)
            path.write_text(f"{head}{begin}\n{text}\n{end}{tail}", encoding="utf-8")
            return
    raise SystemExit(f"no page of {RESULTS} has the lines {begin} and {end}: add them to one")
