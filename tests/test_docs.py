"""What the pages of the documentation promise about themselves."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import pyro_crowdclust
from pyro_crowdclust import plots

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = sorted(
    path for path in DOCS.rglob("*.md") if not {"api", "_build"} & {*path.relative_to(DOCS).parts}
)
README = DOCS.parent / "README.md"
# The column of the pages, and of half a screen.
WIDTH = 79


def code_of(page: Path) -> list[tuple[int, str]]:
    """Lines of a page that stand in fences, with their numbers."""
    lines, inside = [], False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif inside:
            lines.append((number, line))
    return lines


def test_the_pages_are_found():
    assert {"index.md", "first_fit.md", "plots.md"} <= {page.name for page in PAGES}
    assert any(">>> result = fit(" in line for _, line in code_of(DOCS / "parts.md"))


@pytest.mark.parametrize("page", [*PAGES, README], ids=lambda page: page.stem)
def test_code_fits_its_column(page):
    assert [(number, line) for number, line in code_of(page) if len(line) > WIDTH] == []


def test_every_page_stands_in_one_section():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    sections = re.findall(r"```\{toctree\}\n:hidden:\n:caption: (.+)\n\n([^`]*)```", index)
    lines = [line for _, pages in sections for line in pages.splitlines()]
    listed = [re.sub(r".*<(.+)>", r"\1", line) for line in lines]
    pages = [page.relative_to(DOCS).with_suffix("").as_posix() for page in PAGES]
    assert [caption for caption, _ in sections] == [
        "Start",
        "Models",
        "How to",
        "Understand",
        "Reference",
        "The project",
    ]
    # A new page is added to one of the lists at the end of docs/index.md.
    assert sorted([*listed, "index"]) == sorted(pages)


FACES = [
    importlib.import_module(found.name)
    for found in pkgutil.walk_packages(pyro_crowdclust.__path__, "pyro_crowdclust.")
    if found.ispkg
]
CLASSES = {
    part: None
    for face in FACES
    for name in getattr(face, "__all__", ())
    if inspect.isclass(part := getattr(face, name))
}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__qualname__)
def test_every_verb_of_a_listed_class_has_a_docstring(kind):
    """Its own, or that of the class that it derives from."""
    own = {
        name: member
        for name, member in vars(kind).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    }
    assert [name for name in own if not inspect.getdoc(getattr(kind, name))] == []


@pytest.mark.parametrize("name", [one for one in plots.__all__ if one.startswith("plot_")])
def test_every_picture_has_a_thumbnail(name):
    page = (DOCS / "plots.md").read_text(encoding="utf-8")
    anchors = {
        re.sub(r"[^a-z ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in re.findall(r"^## (.+)$", page, re.MULTILINE)
    }
    (found,) = re.findall(rf"\[!\[{name}\]\((images/\w+\.png)\)\]\(#([\w-]+)\)", page)
    image, anchor = found
    assert (DOCS / image).is_file()
    assert anchor in anchors
    assert page.count(f"({image})") >= 2  # small at the top, and large in its section


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pictures_are_there(page):
    for image in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / image).is_file(), image
