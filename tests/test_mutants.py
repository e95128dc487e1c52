"""The mutants of ``make mutants``: each is one change in something that computes."""

from __future__ import annotations

import ast
import importlib.util
import py_compile
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().with_name("mutants.py")
spec = importlib.util.spec_from_file_location("mutants", SCRIPT)
mutants = importlib.util.module_from_spec(spec)
sys.modules["mutants"] = mutants
spec.loader.exec_module(mutants)

TEXT = """
def check(x):
    return x + 1


def f(x: "a + b", y=1 + 1):
    if x < 2 and y:
        raise ValueError(x + 1)
    x.update(-y)
    return (x / 2).logsumexp(-1)
"""


def test_what_may_be_mistaken(monkeypatch, tmp_path):
    (tmp_path / "file.py").write_text(TEXT)
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    made = mutants.mutants_of("file.py", ["tests"])
    assert {f"{one.before} -> {one.after}" for one in made} == {
        "x < 2 and y -> x < 2 or y",
        "x < 2 -> x >= 2",
        "x.update(-y) -> pass",
        "-y -> y",
        "x / 2 -> x * 2",
        "x / 2 -> x / 3",
        "(x / 2).logsumexp(-1) -> (x / 2).amax(-1)",
    }
    original = ast.unparse(ast.parse(TEXT))
    for mutant in made:
        ast.parse(mutant.source)
        assert mutant.source != original
    assert [one.line for one in made if one.after == "pass"] == [9]


@pytest.mark.parametrize(("start", "tests"), mutants.CORE.items())
def test_files_and_their_tests_are_there(start, tests):
    assert (mutants.ROOT / start).exists()
    assert all((mutants.ROOT / test).exists() for test in tests)


def test_a_mutant_is_read_in_place_of_its_file_and_of_what_was_compiled(monkeypatch, tmp_path):
    file = tmp_path / "file.py"
    file.write_text("value = 1 + 1")
    py_compile.compile(str(file))
    (tmp_path / "other.py").write_text("value = 2")
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (mutant,) = (one for one in mutants.mutants_of("file.py", []) if one.after == "1 - 1")
    monkeypatch.setattr(SourceFileLoader, "get_data", mutants.reading(mutant))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    values = {}
    for name in ("file", "other"):
        spec = importlib.util.spec_from_file_location(name, tmp_path / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        values[name] = module.value
    assert values == {"file": 0, "other": 2}
