"""The protocol of formats, the available formats, and writing and reading their files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pandas as pd

from pyro_crowdclust.data.tables import as_frame
from pyro_crowdclust.exchange.argilla import Argilla
from pyro_crowdclust.exchange.crowd_answers import CrowdAnswers
from pyro_crowdclust.exchange.crowd_kit import CrowdKit
from pyro_crowdclust.exchange.dedupe import Dedupe
from pyro_crowdclust.exchange.html_page import HtmlPage
from pyro_crowdclust.exchange.items import Items
from pyro_crowdclust.exchange.label_studio import LabelStudio
from pyro_crowdclust.exchange.plain_csv import PlainCsv
from pyro_crowdclust.exchange.prodigy import Prodigy
from pyro_crowdclust.exchange.questions import Questions
from pyro_crowdclust.files.opening import encoding_of, opened


@runtime_checkable
class Format(Protocol):
    """The format of an annotation tool: export of questions, and import of answers.

    A user-defined format needs these methods, and no base class.
    """

    def tasks(self, questions: pd.DataFrame, items: Items = None) -> Any:
        """The questions in the form of the tool; ``items`` has what is shown of the items."""

    def answers(self, export: Any) -> CrowdAnswers:
        """The answers in an export of the tool."""

    def files(self, questions: pd.DataFrame, items: Items = None) -> dict[str, str]:
        """The text of every file for the tool, by file name."""

    def parse(self, text: str) -> Any:
        """The export in a file, in the form that ``answers`` takes."""


# Formats with their defaults, by their names on the command line.
FORMATS: dict[str, Format] = {
    "csv": PlainCsv(),
    "html": HtmlPage(),
    "label-studio": LabelStudio(),
    "prodigy": Prodigy(),
    "argilla": Argilla(),
    "dedupe": Dedupe(),
    "crowd-kit": CrowdKit(),
}
# The format of a file by its suffix, if none is given.
_BY_SUFFIX = {".csv": "csv", ".tsv": "csv", ".json": "label-studio", ".jsonl": "prodigy"}
# Files with these suffixes may be of other tools, too.
_OF_SEVERAL = (".json", ".jsonl")


def write_tasks(
    folder: str | Path,
    form: Format,
    questions: Questions,
    items: Items = None,
) -> list[Path]:
    """Write the files of a tool with questions; returns their paths.

    Parameters
    ----------
    folder
        Where to write; it is made if it does not exist.
    form
        The format, such as ``LabelStudio()``.
    questions
        A table of pairs (``left, right``), of pages (``page, item``) or of items to label
        (``item``), optionally with ``worker``.
    items
        What workers see: a data frame with a row for every id, whose column ``image`` has files or
        addresses of pictures and whose other columns are shown as text; or a text for every id.

    Raises
    ------
    ValueError
        If the format does not have this kind of questions, or an item is not among ``items``.

    Examples
    --------
    >>> import tempfile
    >>> pairs = pd.DataFrame({"left": ["ant"], "right": ["bee"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_tasks(folder, LabelStudio(), pairs)]
    ['tasks.json', 'labelling.xml']
    """
    texts = form.files(as_frame(questions, "questions"), items)
    Path(folder).mkdir(parents=True, exist_ok=True)
    return write_texts({Path(folder) / name: text for name, text in texts.items()})


def write_texts(texts: Mapping[Path, str]) -> list[Path]:
    """Write the texts of these files as they are, line ends included; returns their paths."""
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8", newline="")
    return [*texts]


def read_answers(*paths: str | Path, form: Format | None = None) -> CrowdAnswers:
    """The answers in one or several files that were exported by a tool.

    Parameters
    ----------
    paths
        One file or several, of one format.
    form
        The format. None: by the suffix of each file, ``.csv`` and ``.tsv`` for a table, ``.json``
        for Label Studio, ``.jsonl`` for Prodigy.

    Raises
    ------
    ValueError
        If a file is malformed; the message names the file, the record and the field. If files are
        in a list.

    The index of tables that were read from a table says in which file, and on which line, a row is.
    """
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise ValueError(
                f"a {type(path).__name__} is not the path of a file: pass several files one by "
                "one, read_answers(*paths)"
            )
    return CrowdAnswers.joined(_read(Path(path), form) for path in paths)


def _read(path: Path, form: Format | None) -> CrowdAnswers:
    hint = ""
    if form is None:
        suffix = path.suffix.lower()
        if suffix not in _BY_SUFFIX:
            raise ValueError(
                f"the format of {path} is unknown, since it does not end in "
                f"{', '.join(_BY_SUFFIX)}: give its format (form=)"
            )
        form = FORMATS[_BY_SUFFIX[suffix]]
        if suffix in _OF_SEVERAL:
            hint = (
                f"; it is read as {type(form).__name__}, since it ends in {suffix}: if another "
                "tool wrote it, give the format (form=)"
            )
    text = opened(path, lambda: path.read_text(encoding=encoding_of(path)))
    try:
        return form.answers(form.parse(text)).in_file(path.name)
    except ValueError as error:
        raise ValueError(f"{path}: {error}{hint}") from error
