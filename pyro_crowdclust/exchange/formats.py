"""What every format does, which formats there are, and files of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pandas as pd

from pyro_crowdclust.data.tables import as_frame
from pyro_crowdclust.exchange.answers import CrowdAnswers
from pyro_crowdclust.exchange.argilla import Argilla
from pyro_crowdclust.exchange.crowd_kit import CrowdKit
from pyro_crowdclust.exchange.dedupe import Dedupe
from pyro_crowdclust.exchange.html_page import HtmlPage
from pyro_crowdclust.exchange.items import Items
from pyro_crowdclust.exchange.label_studio import LabelStudio
from pyro_crowdclust.exchange.plain_csv import PlainCsv
from pyro_crowdclust.exchange.prodigy import Prodigy
from pyro_crowdclust.exchange.questions import Questions
from pyro_crowdclust.files.opening import opened


@runtime_checkable
class Format(Protocol):
    """A tool that people answer in: questions to it, and their answers back.

    One's own needs these verbs and no base class.
    """

    def tasks(self, questions: pd.DataFrame, items: Items = None) -> Any:
        """The questions as the tool takes them; what is shown of the items is in ``items``."""

    def answers(self, export: Any) -> CrowdAnswers:
        """What people said, from what the tool exports."""

    def files(self, questions: pd.DataFrame, items: Items = None) -> dict[str, str]:
        """The text of every file to give to the tool, by its name."""

    def parse(self, text: str) -> Any:
        """The export in a file, as ``answers`` takes it."""


# With the formats' own defaults, by the names that the command line has for them.
FORMATS: dict[str, Format] = {
    "csv": PlainCsv(),
    "html": HtmlPage(),
    "label-studio": LabelStudio(),
    "prodigy": Prodigy(),
    "argilla": Argilla(),
    "dedupe": Dedupe(),
    "crowd-kit": CrowdKit(),
}
# Which of them a file is of, where nobody says.
_BY_SUFFIX = {".csv": "csv", ".tsv": "csv", ".json": "label-studio", ".jsonl": "prodigy"}


def write_tasks(
    folder: str | Path,
    form: Format,
    questions: Questions,
    items: Items = None,
) -> list[Path]:
    """Write the files that a tool asks from; returns their names.

    Parameters
    ----------
    folder
        Where to write; it is made where there is none.
    form
        The format, such as ``LabelStudio()``.
    questions
        A table of pairs (``left, right``), of pages (``page, item``) or of items to label
        (``item``), perhaps with ``worker``.
    items
        What people see: a data frame with a row for every id, whose column ``image`` holds files
        or addresses of pictures and whose others are shown as text; or a text for every id.

    Raises
    ------
    ValueError
        If the format has no such questions, or an item is not among ``items``.

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
    paths = [Path(folder) / name for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text, encoding="utf-8", newline="")
    return paths


def read_answers(*paths: str | Path, form: Format | None = None) -> CrowdAnswers:
    """What people said, from the files that a tool exports.

    Parameters
    ----------
    paths
        One file or several, of one format.
    form
        The format. None: what the end of each file's name says, ``.csv`` and ``.tsv`` a table,
        ``.json`` Label Studio's, ``.jsonl`` Prodigy's.

    Raises
    ------
    ValueError
        Naming the file, the record in it and the field.
    """
    return CrowdAnswers.joined(_read(Path(path), form) for path in paths)


def _read(path: Path, form: Format | None) -> CrowdAnswers:
    if form is None:
        if path.suffix.lower() not in _BY_SUFFIX:
            raise ValueError(
                f"{path} does not end in {', '.join(_BY_SUFFIX)}: say which format it has"
            )
        form = FORMATS[_BY_SUFFIX[path.suffix.lower()]]
    text = opened(path, lambda: path.read_text(encoding="utf-8-sig"))
    try:
        return form.answers(form.parse(text))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
