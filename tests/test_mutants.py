"""The mutants of ``make mutants``: each is one change in something that computes."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
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


class C:
    def __init__(self, z):
        if z < 3:
            raise ValueError(-z)
        self.z = -z
"""


def test_what_may_be_mistaken(monkeypatch, tmp_path):
    (tmp_path / "file.py").write_text(TEXT)
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    made = mutants.mutants_of("file.py")
    assert {f"{one.before} -> {one.after}" for one in made} == {
        "x < 2 and y -> x < 2 or y",
        "x < 2 -> x >= 2",
        "x.update(-y) -> pass",
        "-y -> y",
        "x / 2 -> x * 2",
        "x / 2 -> x / 3",
        "(x / 2).logsumexp(-1) -> (x / 2).amax(-1)",
        "-z -> z",
    }
    original = ast.unparse(ast.parse(TEXT))
    for mutant in made:
        assert ast.unparse(mutant.tree) != original
    assert [one.line for one in made if one.after == "pass"] == [9]


@pytest.mark.parametrize(("start", "tests"), mutants.CORE.items())
def test_files_and_their_tests_are_there(start, tests):
    assert (mutants.ROOT / start).exists()
    assert all((mutants.ROOT / test).exists() for test in tests)


def test_a_mutant_is_in_place_of_a_function_wherever_it_was_imported(monkeypatch, tmp_path):
    file = tmp_path / "file.py"
    file.write_text(
        "def decorated(function):\n    return lambda x: function(x) + 1\n\n"
        "class Other:\n    def f(self, x):\n        return x\n\n"
        "@decorated\ndef f(x):\n    return (lambda: 2 * x)()\n"
    )
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    spec = importlib.util.spec_from_file_location("file", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    imported, other = module.f, module.Other().f
    assert imported(3.0) == 7.0
    (mutant,) = (one for one in mutants.mutants_of("file.py") if one.after == "2 / x")
    mutants.put_in_place(mutant, mutants.functions_of(file))
    assert imported(4.0) == 1.5
    assert other(4.0) == 4.0


def test_survivors_are_what_no_test_of_the_file_sees(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "code_of_it.py").write_text(
        "def seen(x):\n    return x + 1\n\n"
        "def unseen(x):\n    return -x\n\n"
        "def never_called(x):\n    return x * 2\n"
    )
    (tmp_path / "tests" / "test_it.py").write_text(
        "from code_of_it import seen, unseen\n\n"
        "def test_seen():\n    assert seen(1) == 2\n\n"
        "def test_unseen():\n    assert unseen(0) == 0\n"
    )
    program = (
        f"import sys; sys.path[:0] = [{str(SCRIPT.parent)!r}, {str(tmp_path)!r}]\n"
        "import mutants, pathlib\n"
        f"mutants.ROOT = pathlib.Path({str(tmp_path)!r})\n"
        "mutants.CORE = {'code_of_it.py': ['tests']}\n"
        "mutants.main([])\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    figures = json.loads(run.stdout.splitlines()[-1])
    assert set(figures.pop("survivors")) == {
        "code_of_it.py:5 -x -> x",
        "code_of_it.py:8 x * 2 -> x / 2",
        "code_of_it.py:8 x * 2 -> x * 3",
    }
    assert figures == {
        **{"mutants": 5, "killed": 2, "survived": 3, "share_killed": 0.4},
        "files": {"code_of_it.py": [5, 2]},
    }
