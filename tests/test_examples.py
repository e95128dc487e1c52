"""Every example and benchmark runs with tiny arguments and ends with its figures as JSON."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pyro_crowdclust.interface.candidates.forms import DIAGONAL, FULL, REGRESSION

from .scripts import SCRIPTS, Script
from .short_searches import EARLY_SETTLED, shorten, try_forms

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("PYRO_CROWDCLUST_DATA", ROOT.parent / "shared" / "data"))

# Of a choice of the model.
KINDS = FULL, DIAGONAL, REGRESSION


def runnable() -> set[str]:
    """Every example, and every benchmark that has a main to call with arguments."""
    found = {f"examples/{file.name}" for file in (ROOT / "examples").glob("*.py")}
    for file in (ROOT / "benchmarks").glob("*.py"):
        if "\ndef main(arguments" in file.read_text(encoding="utf-8"):
            found.add(f"benchmarks/{file.name}")
    return found


def load_main(script: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], Any]:
    """Import a script by its path, as running it would, and return its main."""
    path = ROOT / script
    name = path.stem  # by which processes that it starts find it, too
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.syspath_prepend(str(path.parent))
    spec.loader.exec_module(module)
    return module.main


def test_every_script_is_in_the_table():
    assert runnable() == set(SCRIPTS)
    # Benchmarks of time alone have nothing to reach.
    assert all(row.reaches for name, row in SCRIPTS.items() if name.startswith("examples/"))


def skip_without_data(script: Script) -> None:
    """Skip the test where what the script reads is not there."""
    missing = [name for name in script.reads.split() if not (DATA / name).exists()]
    if missing:
        pytest.skip(f"it reads {missing}, which {DATA} does not hold")


def arguments_of(script: Script, folder: Path) -> list[str]:
    """Its tiny arguments; skips the test where what it reads is not there."""
    skip_without_data(script)
    return [part.format(tmp=folder, data=DATA) for part in shlex.split(script.arguments)]


def numbers(value: Any) -> list[float]:
    """All numbers in a JSON value; null stands for what could not be measured here."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [part for one in value for part in numbers(one)]
    return [] if value is None or isinstance(value, str) else [value]


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, marks=pytest.mark.long) if script.startswith("benchmarks/") else script
        for script in SCRIPTS
    ],
)
def test_script(script, monkeypatch, capsys, tmp_path):
    row = SCRIPTS[script]
    arguments = arguments_of(row, tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    torch.set_default_dtype(torch.float32)  # that of a script's own process
    # Choices and draws of partitions have tests of their own; here they try little.
    shorten(monkeypatch)
    monkeypatch.setattr("pyro_crowdclust.guides.ClassLabelGuide", EARLY_SETTLED)
    # Of few pages that many say which items are the same for sure.
    monkeypatch.setattr("pyro_crowdclust.interface.answers_alone.pages_alone._PAGE_CHAINS", 12)
    try_forms(monkeypatch, lambda form: form.features == "columns" and form.kind in KINDS)
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    if script == "benchmarks/dp_dlgmm_step.py":  # of own processes are the figures of others
        monkeypatch.setattr("memory.in_own_process", lambda work, *given: work(*given))
    returned = load_main(script, monkeypatch)(arguments)
    figures = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert set(figures) == set(returned) == set(row.keys.split())
    # What the machine did not allow to measure is null.
    measured = [value for value in figures.values() if value is not None]
    assert all(math.isfinite(number) for value in measured for number in numbers(value))
    for path, (least, most) in row.reaches.items():
        value = figures
        for key in path.split("/"):
            value = value[key]
        assert all(least <= number <= most for number in numbers(value)), (path, value)
    if "{tmp}" in row.arguments:
        pictures = list(tmp_path.glob("*.png"))
        assert pictures
        assert all(picture.stat().st_size > 1000 for picture in pictures)


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "others"),
    [
        ("examples/cifar10_crowd.py", []),
        ("examples/mnist_crowd.py", ["--variant", "bayes", "--teaching-steps", "0"]),
    ],
)
def test_nobody_needs_to_be_asked(script, others, monkeypatch, tmp_path):
    arguments = arguments_of(SCRIPTS[script], tmp_path)
    torch.set_default_dtype(torch.float32)
    figures = load_main(script, monkeypatch)([*arguments, *others, "--answers", "no"])
    assert 0.1 < figures["test_accuracy"] < 1


@pytest.mark.long
def test_judges_who_err_together_are_worth_more_than_their_votes(monkeypatch):
    skip_without_data(SCRIPTS["examples/judges.py"])
    main = load_main("examples/judges.py", monkeypatch)
    found = main(["--data", str(DATA), "--sets", "wdc", "--panels", "0", "--methods"])["wdc"]
    assert found["ours"] > found["majority"] + 0.02
    assert found["ours_with_features"] > found["ours"] + 0.008
    assert found["log_loss"]["ours"] < 0.25
    assert max(found["effective_judges"].values()) < 6
