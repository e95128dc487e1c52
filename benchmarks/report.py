"""Run experiments as commands, read their last line as JSON, and write what they measured.

A section of ``docs/results.md`` is a table between two marker lines; running its experiments
replaces the table and leaves the rest of the page alone.
"""

from __future__ import annotations

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
RESULTS = ROOT / "docs" / "results.md"


@dataclass(frozen=True)
class Figure:
    """One row: what was asked, and how to read the measured value from the JSON."""

    name: str
    asked: str
    measured: Callable[[dict[str, Any]], str]


@dataclass(frozen=True)
class Experiment:
    """A command and its figures; ``needs_data`` if it reads the folder PYRO_CROWDCLUST_DATA."""

    command: Sequence[str]
    figures: Sequence[Figure]
    needs_data: bool = False


def data_folder() -> Path:
    """The folder with the public data sets."""
    return Path(os.environ.get("PYRO_CROWDCLUST_DATA", ROOT.parent / "shared" / "data"))


def run(experiment: Experiment) -> tuple[dict[str, Any], float]:
    """The JSON of the command's last line, and its seconds."""
    command = [sys.executable, *experiment.command]
    if experiment.needs_data:
        command += ["--data", str(data_folder())]
    started = time.perf_counter()
    lines: list[str] = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(experiment.command)} ended with {process.returncode}")
    return json.loads(lines[-1]), time.perf_counter() - started


def table(experiments: Sequence[Experiment]) -> str:
    """Run everything; a Markdown table of the figures."""
    rows = ["| figure | asked | measured | seconds | command |", "| --- | --- | --- | --- | --- |"]
    for experiment in experiments:
        command = f"`python {' '.join(experiment.command)}`"
        if experiment.needs_data and not data_folder().is_dir():
            print(f"skipped {command}: no folder {data_folder()}")
            rows.append(f"| all of the command | | not run: the data are absent | | {command} |")
            continue
        measured, seconds = run(experiment)
        rows += [
            f"| {figure.name} | {figure.asked} | {figure.measured(measured)} | {seconds:.0f} "
            f"| {command} |"
            for figure in experiment.figures
        ]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    return "\n".join([*rows, "", f"Measured {datetime.date.today()} on {machine}."])


def write_section(name: str, text: str) -> None:
    """Replace the text between the markers of a section."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    page = RESULTS.read_text()
    if begin not in page or end not in page:
        raise SystemExit(f"{RESULTS} needs the lines {begin} and {end}")
    head, rest = page.split(begin, 1)
    _, tail = rest.split(end, 1)
    RESULTS.write_text(f"{head}{begin}\n{text}\n{end}{tail}")
