"""Tables as plain text, to fill in in a spreadsheet."""

from __future__ import annotations

import io
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pyro_crowdclust.data.tables import show
from pyro_crowdclust.exchange.answers import CrowdAnswers
from pyro_crowdclust.exchange.items import Items, ShownItems
from pyro_crowdclust.exchange.people import files_by_worker
from pyro_crowdclust.exchange.questions import (
    PageQuestion,
    PairQuestion,
    Question,
    is_no_answer,
    read_questions,
)
from pyro_crowdclust.files.csv_files import as_written, write_csv

# The columns that say what is asked, the one to fill in, and the table of the answers.
_KINDS = (
    (["left", "right"], "label", "pairs"),
    (["page", "item"], "group", "placements"),
    (["item"], "label", "labels"),
)


@dataclass(frozen=True)
class PlainCsv:
    """Tables with a column to fill in: ``label`` for pairs and labels, ``group`` for pages.

    A cell that is left empty, or says "can't tell", is no answer.

    Parameters
    ----------
    worker
        Who answered, where a row does not say.

    Examples
    --------
    >>> pages = pd.DataFrame({"page": [1, 1, 1], "item": ["ant", "bee", "cat"]})
    >>> table = PlainCsv().tasks(pages)
    >>> table["group"] = ["insect", "insect", ""]
    >>> answers = PlainCsv(worker="ann").answers(table)
    >>> answers.placements
       page item worker   group
    0     1  ant    ann  insect
    1     1  bee    ann  insect
    >>> answers.unanswered["item"].tolist()
    ['cat']
    """

    worker: Hashable | None = None

    def tasks(self, questions: pd.DataFrame, items: Items = None) -> pd.DataFrame:
        """A table of the questions, what is shown of the items, and an empty column.

        Raises
        ------
        ValueError
            If an item is not among ``items``.
        """
        return self._table(read_questions(questions), ShownItems.of(items))

    def _table(self, questions: Sequence[Question], shown: ShownItems) -> pd.DataFrame:
        rows = [row for question in questions for row in _rows(question, shown)]
        frame = pd.DataFrame(rows)
        answer = "group" if "page" in frame else "label"
        return frame.assign(**{answer: ""})

    def files(self, questions: pd.DataFrame, items: Items = None) -> dict[str, str]:
        """A table for every worker, or one where nobody is named."""
        shown = ShownItems.of(items)
        texts = {}
        for name, own in files_by_worker(read_questions(questions), "questions", ".csv").items():
            file = io.StringIO()
            write_csv(self._table(own, shown), file, index=False)
            texts[name] = file.getvalue()
        return texts

    def parse(self, text: str) -> pd.DataFrame:
        """The table in a file, all cells as text; commas, semicolons or tabs between them.

        Raises
        ------
        ValueError
            If the text is no table.
        """
        head = text.partition("\n")[0]
        separator = max(",;\t", key=head.count)
        frame = pd.read_csv(io.StringIO(text), sep=separator, dtype=str, keep_default_na=False)
        frame.columns = frame.columns.str.strip()
        return frame.map(lambda cell: as_written(cell.strip()))

    def answers(self, export: pd.DataFrame) -> CrowdAnswers:
        """What people said, from a table that they filled in.

        Raises
        ------
        ValueError
            Where a column is missing, or nobody is named as the worker.
        """
        columns, answer, table = _kind_of(export)
        frame = export.assign(worker=self._workers(export)).reset_index(drop=True)
        blank = frame[answer].map(is_no_answer).astype(bool)
        own = [*columns, "worker", answer]
        own += [name for name in ("seconds", "page") if name in frame and name not in own]
        return CrowdAnswers.of_tables(
            **{
                table: frame.loc[~blank, own].reset_index(drop=True),
                "unanswered": frame.loc[blank, [*columns, "worker"]].reset_index(drop=True),
            }
        )

    def _workers(self, frame: pd.DataFrame) -> pd.Series:
        if "worker" not in frame:
            if self.worker is None:
                raise ValueError(
                    "there is no column 'worker': add one, or say who answered (PlainCsv(worker=))"
                )
            return pd.Series([self.worker] * len(frame), frame.index, dtype=object)
        missing = frame["worker"].isna() | (frame["worker"] == "")
        if missing.any() and self.worker is None:
            row = int(missing.to_numpy().argmax()) + 1
            raise ValueError(f"row {row} has no worker: fill it in, or say PlainCsv(worker=)")
        return frame["worker"].where(~missing, self.worker)


def _rows(question: Question, shown: ShownItems) -> list[dict[str, Any]]:
    who = {} if question.worker is None else {"worker": question.worker}
    if isinstance(question, PairQuestion):
        both = zip(("text_left", "text_right"), question.items, strict=True)
        return [question.about() | who | {name: _seen(item, shown) for name, item in both}]
    page = {"page": question.page} if isinstance(question, PageQuestion) else {}
    return [{**page, "item": item, **who, "text": _seen(item, shown)} for item in question.items]


def _seen(item: Hashable, shown: ShownItems) -> str:
    """What a spreadsheet can show of an item: its texts, or where its picture is."""
    return shown.text(item) if shown.has_texts else str(shown.fields(item)["image"])


def _kind_of(frame: pd.DataFrame) -> tuple[list[str], str, str]:
    for columns, answer, table in _KINDS:
        if {*columns, answer} <= {*frame.columns}:
            return columns, answer, table
    wanted = "; ".join(", ".join([*columns, answer]) for columns, answer, _ in _KINDS)
    raise ValueError(
        f"the columns are {', '.join(map(show, frame.columns))}, but must be those of one kind of "
        f"answers: {wanted}"
    )
