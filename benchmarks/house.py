"""The size and shape of the code: lines, public names, rooms, circles of imports, type errors.

    python benchmarks/house.py
    python benchmarks/house.py --root ../another_checkout

A line counts if it holds code: not if it is blank, a comment, or (part of) a docstring. A path is
public if users may import from it: the package, its first-level folders and files, ``models`` and
``guides``; its names are those of its ``__all__``, or else what it defines without a leading
underscore. Imports count wherever they stand, also in functions and for types alone. Type errors
are those of mypy, with the settings of this checkout.

Last line: one JSON object. ``modules_in_root`` are the files that lie beside the rooms' folders,
``import_cycles`` the groups of files that import each other in a circle.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

HERE = Path(__file__).resolve().parents[1]
PACKAGE = "pyro_crowdclust"
NOT_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def modules_of(root: Path) -> dict[str, Path]:
    """Every file of the package, by the dotted name that it is imported by."""
    found = {}
    for top in (PACKAGE, "models", "guides"):
        for file in sorted((root / top).rglob("*.py")):
            name = ".".join(file.relative_to(root).with_suffix("").parts)
            name = name if top == PACKAGE else f"{PACKAGE}.{name}"
            found[name.removesuffix(".__init__")] = file
    return found


def lines_of_code(source: str) -> int:
    r"""Lines that hold code.

    >>> lines_of_code('def f():\n    "Say."\n\n    return 1  # one\n')
    2
    """
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NOT_CODE:
            held.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            docstring = node.body[0]
            held.difference_update(range(docstring.lineno, docstring.end_lineno + 1))
    return len(held)


def public_names(source: str) -> list[str]:
    """The names of ``__all__``, or the public ones that a module defines."""
    body, defined = ast.parse(source).body, []
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            defined.append(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        if names == ["__all__"]:
            return ast.literal_eval(node.value)
        defined += names
    return [name for name in defined if not name.startswith("_")]


def imports_of(name: str, file: Path, modules: dict[str, Path]) -> set[str]:
    """The modules that one imports, at any time."""
    package = name if file.stem == "__init__" else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) + 1 - node.level]
            start = ".".join([*(parents if node.level else []), *filter(None, [node.module])])
            whole = [f"{start}.{alias.name}" for alias in node.names]
            found.update(one if one in modules else start for one in whole)
    return found & modules.keys()


def import_cycles(modules: dict[str, Path]) -> list[list[str]]:
    """Groups of modules that import each other, directly or through others."""
    number = {name: row for row, name in enumerate(modules)}
    arrows = [
        (number[name], number[other])
        for name, file in modules.items()
        for other in imports_of(name, file, modules)
    ]
    ends = np.array(arrows).T
    graph = coo_array((np.ones(len(arrows)), tuple(ends)), shape=(len(number),) * 2)
    _, group = connected_components(graph, connection="strong")
    names = pd.Series(list(modules)).groupby(group).agg(list)
    return [group for group in names if len(group) > 1]


def fit_parameters(sources: dict[str, str]) -> int:
    """How many arguments ``fit`` has, in whatever file beside the rooms it is."""
    at_top = (source for name, source in sources.items() if room_of(name) == name)
    nodes = [node for source in at_top for node in ast.parse(source).body]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    (fit,) = [function for function in functions if function.name == "fit"]
    return len(fit.args.posonlyargs + fit.args.args + fit.args.kwonlyargs)


def type_errors(root: Path) -> int | None:
    """The number of mypy's errors; None where it is not installed."""
    settings = ["--config-file", str(HERE / "pyproject.toml")]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *settings, PACKAGE, "models", "guides"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.stdout.startswith("Success"):
        return 0
    found = re.search(r"Found (\d+) errors?", run.stdout)
    return int(found.group(1)) if found else None


def room_of(name: str) -> str:
    """The first-level folder or file that a module is in."""
    return ".".join(name.split(".")[:2])


def main(arguments: Sequence[str] | None = None) -> dict[str, int | None]:
    """Measure a checkout, and print a table by room."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=HERE, help="the checkout to measure")
    parser.add_argument("--skip-types", action="store_true", help="do not run mypy, a minute")
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    modules = modules_of(root)
    sources = {name: file.read_text(encoding="utf-8") for name, file in modules.items()}
    table = pd.DataFrame(
        {
            "room": [room_of(name) for name in modules],
            "lines": [lines_of_code(source) for source in sources.values()],
            "public": [
                len(public_names(source)) if name == room_of(name) and "._" not in name else 0
                for name, source in sources.items()
            ],
        }
    )
    rooms = table.groupby("room").agg(
        files=("lines", "size"), lines=("lines", "sum"), public=("public", "sum")
    )
    rooms.loc["all"] = rooms.sum()
    print(rooms.to_string())
    cycles = import_cycles(modules)
    for cycle in cycles:
        print("circle:", ", ".join(cycle))
    in_root = [name for name, file in modules.items() if file.parent == root / PACKAGE]
    report = {
        "modules_in_root": len(in_root) - 1,
        "public_paths": int((rooms["public"].drop("all") > 0).sum()),
        "fit_parameters": fit_parameters(sources),
        "import_cycles": len(cycles),
        "type_errors": None if options.skip_types else type_errors(root),
        "lines_of_code": int(rooms.loc["all", "lines"]),
        "public_names": int(rooms.loc["all", "public"]),
    }
    print(json.dumps(report))
    return report


if __name__ == "__main__":
    main()
