"""The format of CSV tables, to be filled in with a spreadsheet."""

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

from pyro_crowdclust.data.pair_tables import in_one_order
from pyro_crowdclust.data.tables import LINE, are_blank, as_frame, refuse_doubled, refuse_respelled
from pyro_crowdclust.errors import count, plain_name, respelled, show
from pyro_crowdclust.exchange.crowd_answers import CrowdAnswers
from pyro_crowdclust.exchange.items import Items, ShownItems
from pyro_crowdclust.exchange.questions import (
    PageQuestion,
    PairQuestion,
    Question,
    Questions,
    is_no_answer,
    read_questions,
)
from pyro_crowdclust.exchange.worker_files import files_by_worker
from pyro_crowdclust.files.csv_files import as_written, stated_separator, write_csv

# The columns of the question, the column to fill in, and the table of the answers.
_KINDS = (
    (["left", "right"], "label", "pairs"),
    (["page", "item"], "group", "placements"),
    (["item"], "label", "labels"),
)


@dataclass(frozen=True)
class PlainCsv:
    """Tables with a column to fill in: ``label`` for pairs and labels, ``group`` for pages.

    A cell that is empty, or "can't tell", is no answer. Rows in which a worker answers the same
    question are several answers, as in the tables of ``CrowdData``; an empty row beside them is
    skipped.

    Parameters
    ----------
    worker
        Id of the worker in rows that do not have one.

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
        """A table with the questions, the texts of the items, and an empty column to fill in.

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
        """One table per worker, and one for questions without a worker."""
        shown = ShownItems.of(items)
        texts = {}
        for name, own in files_by_worker(read_questions(questions), "questions", ".csv").items():
            file = io.StringIO()
            write_csv(self._table(own, shown), file, index=False)
            texts[name] = file.getvalue()
        return texts

    def parse(self, text: str) -> pd.DataFrame:
        """The table in a file, with all cells as text, separated by commas, semicolons or tabs.

        The index says on which line each row begins.
        Rows without any text and columns without a name, which spreadsheets may add, are left out.

        Raises
        ------
        ValueError
            If the text is not a table, a column name is repeated, or a row has more values than
            there are columns.
        """
        first, _, rest = text.lstrip().partition("\n")
        stated = stated_separator(first)
        above = 0
        if stated is not None:
            text, above = rest, text.count("\n") - rest.count("\n")
        separator = stated or max(",;\t", key=first.count)
        (_, names), *filled = _filled_rows(text, separator)
        lines, rows = [above + line for line, _ in filled], [row for _, row in filled]
        refuse_doubled("the table has", filter(None, names))
        for line, row in zip(lines, rows, strict=True):
            if any(row[len(names) :]):
                raise ValueError(
                    f"line {line} has {len(row)} values, but the first line has "
                    f"{count(len(names), 'name')}: name every column, and put quotes around texts "
                    f"that contain {separator!r}"
                )
        columns = zip_longest(names, *(row[: len(names)] for row in rows), fillvalue="")
        cells = {name: list(map(as_written, column)) for name, *column in columns if name}
        return pd.DataFrame(cells, pd.Index(lines, dtype=int, name=LINE), dtype=str)

    def answers(self, export: pd.DataFrame | Mapping[str, Any]) -> CrowdAnswers:
        """The answers in a table that was filled in.

        Raises
        ------
        ValueError
            If a column, or the id of a worker or of an item, is missing.
        """
        given = as_frame(export, "answers")
        columns, answer, table = _kind_of(given)
        refuse_respelled("the answers have", ["worker", "page", "seconds"], given.columns)
        used = {*columns, answer, "worker", "page", "seconds"}
        refuse_doubled("the answers have", (name for name in given.columns if name in used))
        frame = given[~_are_empty(given)]
        _check_ids(frame[~_are_empty(frame[[answer]])], columns)
        frame = _numbered(frame.assign(worker=self._workers(frame, columns)))
        if table != "placements":  # CrowdData refuses an item that is twice on a page
            frame = _without_skipped(frame, columns, answer)
        blank = frame[answer].map(is_no_answer).astype(bool)
        own = [*columns, "worker", answer]
        own += [name for name in ("seconds", "page") if name in frame and name not in own]
        return CrowdAnswers.of_tables(
            **{
                table: _numbered(frame.loc[~blank, own]),
                "unanswered": _numbered(frame.loc[blank, [*columns, "worker"]]),
            }
        )

    def _workers(self, frame: pd.DataFrame, columns: list[str]) -> pd.Series:
        if "worker" not in frame:
            if self.worker is None:
                raise ValueError(
                    "there is no column 'worker': add one, or give the worker by PlainCsv(worker=)"
                )
            return pd.Series([self.worker] * len(frame), frame.index, dtype=object)
        missing = frame["worker"].isna() | are_blank(frame["worker"])
        if missing.any() and self.worker is None:
            row = int(missing.to_numpy().argmax())
            about = ", ".join(f"{name} {show(frame[name].iloc[row])}" for name in columns)
            raise ValueError(
                f"{_place(frame, row)} has no worker ({about}): fill it in, or give "
                "PlainCsv(worker=)"
            )
        return frame["worker"].where(~missing, self.worker)


def _numbered(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with its rows numbered, unless the index says on which line they are."""
    return frame if frame.index.name == LINE else frame.reset_index(drop=True)


def _place(frame: pd.DataFrame, row: int) -> str:
    """Where a row is, in words."""
    return f"line {frame.index[row]}" if frame.index.name == LINE else f"row {row + 1}"


def _filled_rows(text: str, separator: str) -> list[tuple[int, list[str]]]:
    """Line and stripped cells of all rows with any text, column names first."""
    # A cell may be a whole picture, which is larger than the reader's default limit.
    limit = csv.field_size_limit(max(len(text), csv.field_size_limit()))
    reader = csv.reader(
        io.StringIO(text, newline=None), delimiter=separator, skipinitialspace=True, strict=True
    )
    try:
        rows, line = [], 1
        for row in reader:
            rows.append((line, [cell.strip() for cell in row]))
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"line {reader.line_num} is not a row of a table ({error}): check that every quote is "
            "closed; a quote within a text is written twice"
        ) from error
    finally:
        csv.field_size_limit(limit)
    filled = [(line, row) for line, row in rows if any(row)]
    if not filled:
        raise ValueError(
            "the table is empty: it must begin with a line of column names, such as "
            "left,right,worker,label"
        )
    return filled


def _are_empty(frame: pd.DataFrame) -> Bool[np.ndarray, " row"]:
    """Whether all cells of a row are empty, as in rows that spreadsheets add below a table."""
    cells = [column.isna().to_numpy() | are_blank(column) for _, column in frame.items()]
    return np.all(cells, axis=0)


def _check_ids(frame: pd.DataFrame, columns: list[str]) -> None:
    for name in columns:
        missing = (frame[name].isna() | are_blank(frame[name])).to_numpy()
        if missing.any():
            row = int(missing.argmax())
            raise ValueError(
                f"{_place(frame, row)} has no {name}, but an answer: fill in the id of its item, "
                "or remove the row"
            )


def _without_skipped(frame: pd.DataFrame, columns: list[str], answer: str) -> pd.DataFrame:
    """The rows but empty ones about what their worker has in another row; one if all are empty."""
    asked = in_one_order(frame) if "left" in columns else frame
    is_given = (frame[answer].notna() & ~are_blank(frame[answer])).to_numpy()
    given_first = np.argsort(~is_given, kind="stable")
    question = [*columns, "worker", *frame.columns.intersection(["page"])]
    again = np.zeros(len(frame), dtype=bool)
    again[given_first] = asked.iloc[given_first].duplicated(question)
    return frame[is_given | ~again]


def _rows(question: Question, shown: ShownItems) -> list[dict[str, Any]]:
    who = {} if question.worker is None else {"worker": question.worker}
    if isinstance(question, PairQuestion):
        both = zip(("text_left", "text_right"), question.items, strict=True)
        return [question.about() | who | {name: _shown_text(item, shown) for name, item in both}]
    page = {"page": question.page} if isinstance(question, PageQuestion) else {}
    return [
        {**page, "item": item, **who, "text": _shown_text(item, shown)} for item in question.items
    ]


def _shown_text(item: Hashable, shown: ShownItems) -> str:
    """What a spreadsheet can show of an item: its texts, or the address of its picture."""
    return shown.text(item) if shown.has_texts else str(shown.fields(item)["image"])


def _kind_of(frame: pd.DataFrame) -> tuple[list[str], str, str]:
    for columns, answer, table in _KINDS:
        if {*columns, answer} <= {*frame.columns}:
            return columns, answer, table
    for columns, answer, _ in _KINDS:
        if {*columns, answer} <= {*map(plain_name, frame.columns)}:
            hint = respelled([*columns, answer], {*frame.columns} - {*columns, answer})
            raise ValueError(f"the columns are {', '.join(map(show, frame.columns))}; {hint}")
    wanted = "; ".join(", ".join([*columns, answer]) for columns, answer, _ in _KINDS)
    raise ValueError(
        f"the columns are {', '.join(map(show, frame.columns))}, but must include those of one "
        f"kind of answers: {wanted}"
    )
