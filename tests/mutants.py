"""Small mistakes in the mathematical core, one at a time, and whether the tests notice.

A mutant is the library with one change in one file: a sign, a factor, a comparison, a condition, a
number, a call left out, or a function in place of a near one. The tests of that file run against
it, and kill it if one fails. A survivor is a change that no test sees: a test that is wanting, or a
change that changes nothing. Mutants are drawn at random from all there are, the same for a seed.

    python tests/mutants.py --most 200

Last line: one JSON object: ``mutants``, ``killed`` (by a failing test, an error, or by taking ten
times as long), ``survived``, ``share_killed`` and ``survivors``, a line of text each.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import math
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.machinery import SourceFileLoader
from pathlib import Path

# Imported once, for all forks.
import pyro.infer  # noqa: F401
import pytest
import scipy.stats  # noqa: F401
import sklearn.cluster
import sklearn.mixture  # noqa: F401
import torch

ROOT = Path(__file__).resolve().parents[1]

# Files of the mathematical core, and the tests that are about them.
CORE = {
    "pyro_crowdclust/families": ["tests/families"],
    "pyro_crowdclust/distributions": ["tests/training/test_bounds.py", "tests/distributions"],
    "pyro_crowdclust/inference": ["tests/training/test_bounds.py", "tests/inference"],
    "pyro_crowdclust/supervision": ["tests/supervision", "tests/mixture/test_collapsed.py"],
    "pyro_crowdclust/callbacks": ["tests/callbacks"],
    "pyro_crowdclust/mixture": ["tests/mixture"],
    "pyro_crowdclust/annotators": [
        *("tests/training/test_bounds.py", "tests/annotators", "tests/models/test_dawid_skene.py"),
    ],
    "pyro_crowdclust/training/natural_gradient.py": ["tests/training/test_natural_gradient.py"],
    "pyro_crowdclust/mixture/softmax_regression.py": ["tests/models/test_logresp.py"],
    "pyro_crowdclust/training/elbo.py": ["tests/training/test_elbo.py"],
    "pyro_crowdclust/minibatches/sampler.py": ["tests/minibatches/test_sampler.py"],
    "pyro_crowdclust/results/averaging.py": ["tests/results/test_averaging.py"],
    "guides/conjugate.py": ["tests/callbacks", "tests/test_combinations.py"],
    "guides/message_passing.py": ["tests/training/test_bounds.py", "tests/guides"],
    "guides/amortized.py": ["tests/guides", "tests/callbacks"],
    "guides/structured.py": ["tests/models/test_deep_latent_mixture.py"],
    "guides/two_way.py": ["tests/models/test_two_way_mixture.py", "tests/test_combinations.py"],
    "guides/class_labels.py": ["tests/models/test_dawid_skene.py", "tests/models/test_momresp.py"],
    "models": ["tests/training/test_bounds.py", "tests/models"],
}

_OTHER_OPERATOR = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
_OPPOSITE = {
    **{ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
}
_OTHER_NAME = {
    **{"logsumexp": "amax", "mean": "sum", "sum": "mean", "max": "min", "min": "max"},
    **{"argmax": "argmin", "clamp_min": "clamp_max", "digamma": "lgamma", "lgamma": "digamma"},
    **{"softmax": "sigmoid", "log_softmax": "log"},
}
# Calls without arguments that may be forgotten.
_FORGOTTEN = {"detach", "log", "exp", "square", "sqrt", "neg", "reciprocal"}


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[ast.AST], ast.AST]]]:
    """What a node may be by mistake, and how to make it so."""
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _OTHER_OPERATOR:
        yield "operator", lambda n: _with(n, op=_OTHER_OPERATOR[type(n.op)]())
    is_sign = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not)
    if is_sign and not isinstance(node.operand, ast.Constant):
        yield "sign", lambda n: n.operand
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _OPPOSITE:
        yield "comparison", lambda n: _with(n, ops=[_OPPOSITE[type(n.ops[0])](), *n.ops[1:]])
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and, or", lambda n: _with(n, op=other)
    if isinstance(node, ast.BinOp):
        for side in ("left", "right"):
            number = getattr(node, side)
            if isinstance(number, ast.Constant) and type(number.value) in (int, float):
                changed = ast.Constant(number.value + 1)
                yield "number", lambda n, side=side, c=changed: _with(n, **{side: c})
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name = node.func.attr
        if name in _OTHER_NAME:
            function = _with(node.func, attr=_OTHER_NAME[name])
            yield "function", lambda n, f=function: _with(n, func=f)
        if name in _FORGOTTEN and not node.args:
            yield "call", lambda n: n.func.value
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "statement", lambda n: ast.Pass()


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


class _Spots(ast.NodeVisitor):
    """Nodes that compute something: no annotations, defaults, decorators and errors."""

    def __init__(self) -> None:
        self.found: list[tuple[ast.AST, str, int]] = []

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom | ast.JoinedStr):
            return
        if isinstance(node, ast.FunctionDef):
            if node.name in ("check", "__repr__", "__init__", "__post_init__"):
                return
            for statement in node.body:
                self.visit(statement)
            return
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self.visit(node.value)
            return
        for number, (kind, _) in enumerate(_changes(node)):
            self.found.append((node, kind, number))
        self.generic_visit(node)


class _Replace(ast.NodeTransformer):
    def __init__(self, node: ast.AST, change: Callable[[ast.AST], ast.AST]) -> None:
        self._node, self._change = node, change

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._node:
            return ast.fix_missing_locations(ast.copy_location(self._change(node), node))
        return self.generic_visit(node)


@dataclass(frozen=True)
class Mutant:
    """One change in one file."""

    file: str
    line: int
    before: str
    after: str
    source: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.before} -> {self.after}"


def mutants_of(file: str, tests: list[str]) -> list[Mutant]:
    """All that a file may be by one mistake."""
    text = (ROOT / file).read_text(encoding="utf-8")
    spots = _Spots()
    spots.visit(ast.parse(text))
    made = []
    for place in range(len(spots.found)):
        tree = ast.parse(text)
        own = _Spots()
        own.visit(tree)
        node, _, number = own.found[place]
        before = ast.unparse(node)
        change = list(_changes(node))[number][1]
        after = ast.unparse(ast.fix_missing_locations(ast.copy_location(change(node), node)))
        source = ast.unparse(_Replace(node, change).visit(tree))
        made.append(Mutant(file, node.lineno, before, after, source, tuple(tests)))
    return made


def reading(mutant: Mutant) -> Callable[[SourceFileLoader, str], bytes]:
    """``SourceFileLoader.get_data`` with the mutant in place of its file.

    Whatever finds modules, such as the hook that checks shapes, reads their files by it. Compiled
    files of the original are hidden.
    """
    read, file = SourceFileLoader.get_data, ROOT / mutant.file

    def get_data(loader: SourceFileLoader, path: str) -> bytes:
        asked = Path(path)
        if asked == file:
            return mutant.source.encode()
        if asked.parent == file.parent / "__pycache__" and asked.name.startswith(f"{file.stem}."):
            raise FileNotFoundError(path)
        return read(loader, path)

    return get_data


def run_fails(mutant: Mutant | None, tests: tuple[str, ...], limit: float = math.inf) -> bool:
    """Whether a test fails, or all of them take longer than the limit.

    They run in a fork of this process, which has imported what takes long and nothing of ours.
    """
    assert "pyro_crowdclust" not in sys.modules, "a fork would have the library without the mutant"
    child = os.fork()
    if not child:
        os.setsid()
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        if mutant is not None:
            sys.dont_write_bytecode = True
            SourceFileLoader.get_data = reading(mutant)
        options = ["-x", "-q", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib"]
        os._exit(int(pytest.main([*options, *tests])))
    ends = time.perf_counter() + limit
    while time.perf_counter() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status != 0
        time.sleep(0.1)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def main(arguments: list[str] | None = None) -> dict[str, object]:
    """Draw mutants, run their tests, list the survivors."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--most", type=int, default=200, help="draw so many mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only files whose path begins so")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    files = {}
    for start, tests in CORE.items():
        path = ROOT / start
        found = [path] if path.suffix else sorted(path.glob("*.py"))
        files |= {str(file.relative_to(ROOT)): tests for file in found}
    chosen = {file: tests for file, tests in files.items() if file.startswith(options.only)}
    every = [mutant for file, tests in chosen.items() for mutant in mutants_of(file, tests)]
    drawn = random.Random(options.seed).sample(every, min(options.most, len(every)))
    print(f"{len(every)} mutants in {len(chosen)} files, {len(drawn)} drawn", flush=True)
    limits: dict[tuple[str, ...], float] = {}
    survivors = []
    for number, mutant in enumerate(drawn):
        if mutant.tests not in limits:
            started = time.perf_counter()
            if run_fails(None, mutant.tests):
                raise RuntimeError(f"{mutant.tests} fail without any mutant")
            limits[mutant.tests] = 10 * (time.perf_counter() - started) + 10
            if not run_fails(replace(mutant, source="raise RuntimeError"), mutant.tests):
                raise RuntimeError(f"{mutant.tests} pass without {mutant.file}: nothing is mutated")
        survived = not run_fails(mutant, mutant.tests, limits[mutant.tests])
        if survived:
            survivors.append(str(mutant))
        print(f"{number + 1}: {'SURVIVED' if survived else 'killed'} {mutant}", flush=True)
    figures = {
        "mutants": len(drawn),
        "killed": len(drawn) - len(survivors),
        "survived": len(survivors),
        "share_killed": round(1 - len(survivors) / max(len(drawn), 1), 3),
        "survivors": survivors,
    }
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    os.chdir(ROOT)
    main()
