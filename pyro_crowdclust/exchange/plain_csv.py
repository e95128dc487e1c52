"""Tables as plain text, to fill in in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool

from pyro_crowdclust.data.pair_answers import in_one_order
from pyro_crowdclust.data.tables import are_blank, as_frame, count, refuse_doubled, show
from pyro_crowdclust.exchange.answers import CrowdAnswers
from pyro_crowdclust.exchange.items import Items, ShownItems
from pyro_crowdclust.exchange.people import files_by_worker
from pyro_crowdclust.exchange.questions import (
    PageQuestion,
    PairQuestion,
    Question,
    Questions,
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

    A cell that is left empty, or says "can't tell", is no answer. Where a row asks one person the
    same as an earlier one, pairs in either order, the last that is filled in counts.

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

    def tasks(self, questions: Questions, items: Items = None) -> pd.DataFrame:
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

    def files(self, questions: Questions, items: Items = None) -> dict[str, str]:
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

        Rows and columns that a spreadsheet adds are left out: rows without any text, columns
        without a name.

        Raises
        ------
        ValueError
            If the text is no table, a name is there twice, or a row holds more than there are
            names.
        """
        separator = max(",;\t", key=text.lstrip().partition("\n")[0].count)
        names, *rows = _filled_rows(text, separator)
        refuse_doubled("the table has", filter(None, names))
        for number, row in enumerate(rows, 1):
            if any(row[len(names) :]):
                raise ValueError(
                    f"row {number} holds {len(row)} values, but the first line has "
                    f"{count(len(names), 'name')}: name every column, and put quotes around texts "
                    f"that hold {separator!r}"
                )
        columns = zip_longest(names, *(row[: len(names)] for row in rows), fillvalue="")
        cells = {name: list(map(as_written, column)) for name, *column in columns if name}
        return pd.DataFrame(cells, dtype=str)

    def answers(self, export: pd.DataFrame | Mapping[str, Any]) -> CrowdAnswers:
        """What people said, from a table that they filled in.

        Raises
        ------
        ValueError
            Where a column is missing, or nobody is named as the worker.
        """
        given = as_frame(export, "answers")
        columns, answer, table = _kind_of(given)
        used = {*columns, answer, "worker", "page", "seconds"}
        refuse_doubled("the answers have", (name for name in given.columns if name in used))
        frame = given[~_are_empty(given)]
        frame = frame.assign(worker=self._workers(frame, columns)).reset_index(drop=True)
        if table != "placements":  # where an item that is twice on a page is left to be refused
            frame = _last_of_each(frame, columns, answer)
        blank = frame[answer].map(is_no_answer).astype(bool)
        own = [*columns, "worker", answer]
        own += [name for name in ("seconds", "page") if name in frame and name not in own]
        return CrowdAnswers.of_tables(
            **{
                table: frame.loc[~blank, own].reset_index(drop=True),
                "unanswered": frame.loc[blank, [*columns, "worker"]].reset_index(drop=True),
            }
        )

    def _workers(self, frame: pd.DataFrame, columns: list[str]) -> pd.Series:
        if "worker" not in frame:
            if self.worker is None:
                raise ValueError(
                    "there is no column 'worker': add one, or say who answered (PlainCsv(worker=))"
                )
            return pd.Series([self.worker] * len(frame), frame.index, dtype=object)
        missing = frame["worker"].isna() | are_blank(frame["worker"])
        if missing.any() and self.worker is None:
            row = int(missing.to_numpy().argmax())
            about = ", ".join(f"{name} {show(frame[name].iloc[row])}" for name in columns)
            raise ValueError(
                f"row {row + 1} has no worker ({about}): fill it in, or say PlainCsv(worker=)"
            )
        return frame["worker"].where(~missing, self.worker)


def _filled_rows(text: str, separator: str) -> list[list[str]]:
    """The cells of every row that has any, without spaces around them; the names are the first."""
    # A cell may hold a whole picture, which is more than this reader takes by itself.
    limit = csv.field_size_limit(max(len(text), csv.field_size_limit()))
    reader = csv.reader(
        io.StringIO(text, newline=None), delimiter=separator, skipinitialspace=True, strict=True
    )
    try:
        rows = [[cell.strip() for cell in row] for row in reader]
    except csv.Error as error:
        raise ValueError(
            f"line {reader.line_num} is no row of a table ({error}): see whether a quote is open; "
            "one within a text is written twice"
        ) from error
    finally:
        csv.field_size_limit(limit)
    filled = [row for row in rows if any(row)]
    if not filled:
        raise ValueError(
            "there is nothing in it: a table begins with a line of names, such as "
            "left,right,worker,label"
        )
    return filled


def _are_empty(frame: pd.DataFrame) -> Bool[np.ndarray, " row"]:
    """Which rows hold nothing at all, as a spreadsheet has them below a table."""
    cells = [column.isna().to_numpy() | are_blank(column) for _, column in frame.items()]
    return np.all(cells, axis=0)


def _last_of_each(frame: pd.DataFrame, columns: list[str], answer: str) -> pd.DataFrame:
    """The last answer of every worker to every question; cells left empty are none."""
    asked = in_one_order(frame) if "left" in columns else frame
    is_given = frame[answer].notna() & ~are_blank(frame[answer])
    empty_first = asked.iloc[np.argsort(is_given.to_numpy(), kind="stable")]
    question = [*columns, "worker", *frame.columns.intersection(["page"])]
    return frame.loc[empty_first.drop_duplicates(question, keep="last").index.sort_values()]


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
