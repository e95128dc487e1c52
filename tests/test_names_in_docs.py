"""Every name of ours in the documentation is there: functions, classes, arguments, files."""

from __future__ import annotations

import ast
import importlib
import os
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = [
    path
    for folder in ("pyro_crowdclust", "models", "guides", "examples", "benchmarks", "tests")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
# A record of what was tried may name what was taken out again.
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if page.parent.name != "experiments" and "_build" not in page.parts
]
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?=\(|$)")
# Camel case, an underscore inside, a dot, or a call: what no ordinary word is.
OURS = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]|[a-zA-Z]_[a-zA-Z]|\w\.\w")
# Names of other packages, symbols of formulas, and what a page says not to write.
ELSEWHERE = {"KL", "Dir", "Cat", "hL", "z_i", "alpha_m", "beta_m", "phi_nk", "plot_forest"}
ELSEWHERE |= {"plot_ppc", "e_t", "n_workers", "class_table_plate"}
# Arguments and attributes that are called like a module; what they have is no name of it.
OBJECTS = {"annotators", "batch", "class_labels", "data", "emission", "family", "guide", "model"}
OBJECTS |= {"reading", "trainer"}
# What comes after the dot of a file.
SUFFIXES = {"py", "csv", "md"}
FILE = re.compile(r"[\w./-]+\.(?:py|md|txt|toml)$")


def _names_in(path: Path) -> set[str]:
    """Everything that a file defines or sets, with its own name and folders."""
    found = {path.stem, *path.relative_to(ROOT).parts}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.keyword) and node.arg:
            found.add(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value.isidentifier():
                found.add(node.value)
        elif isinstance(node, ast.alias):
            found.update((node.asname or node.name).split("."))
    return found


@cache
def _known() -> set[str]:
    """Every name of the code, read where a page asks for it and not by whoever collects tests."""
    return set().union(*map(_names_in, SOURCES))


@cache
def _files() -> list[str]:
    """Every file that is in no hidden folder: those are environments and caches."""
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [f"{folder}/{name}" for name in names]
    return found


def _said(page: Path) -> set[str]:
    """Names in backticks, and those that the page's own examples make."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"```.*?```", text, flags=re.DOTALL)
    own = set(re.findall(r"\w+", " ".join(blocks)))
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    names = set()
    for code in CODE.findall(prose):
        if FILE.fullmatch(code.strip()):
            continue
        match = NAME.match(code.strip())
        if match and (OURS.search(match.group()) or code.strip()[match.end() :].startswith("(")):
            names |= set(match.group().split("."))
    return names - own


def _module(path: Path) -> ModuleType:
    """The module of a file of the library."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "pyro_crowdclust" else ("pyro_crowdclust", *parts)
    return importlib.import_module(".".join(parts).removesuffix(".__init__"))


# Modules and rooms of the library by their last name, of which there may be several.
MODULES: dict[str, list[Path]] = {}
for source in SOURCES:
    if source.relative_to(ROOT).parts[0] in ("pyro_crowdclust", "models", "guides"):
        is_room = source.stem == "__init__"
        MODULES.setdefault(source.parent.name if is_room else source.stem, []).append(source)


def _leads_somewhere(module: str, name: str) -> bool:
    """Whether a name can be had from one of the modules of that name, or is a file beside it."""
    if module not in MODULES or name in SUFFIXES:
        return True
    for found in map(_module, MODULES[module]):
        if hasattr(found, name):
            return True
        if hasattr(found, "__path__") and find_spec(f"{found.__name__}.{name}"):
            return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_are_those_of_the_code(page):
    missing = sorted(_said(page) - _known() - ELSEWHERE)
    assert not missing, f"{page.relative_to(ROOT)} names {missing}, which are nowhere in the code"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_of_modules_and_files_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    wrong = []
    for code in map(str.strip, CODE.findall(text)):
        if FILE.fullmatch(code):
            if not any(path.endswith("/" + code.lstrip("./")) for path in _files()):
                wrong.append(code)
            continue
        match = NAME.match(code)
        names = match.group().split(".") if match else []
        wrong += [
            f"{module}.{name}"
            for module, name in zip(names, names[1:], strict=False)
            if not (module in OBJECTS and names[0] != "pyro_crowdclust")
            and not _leads_somewhere(module, name)
        ]
    wrong = sorted(set(wrong))
    assert not wrong, f"{page.relative_to(ROOT)} names {wrong}, which are not there"
