"""Single questions: a pair, a page to sort, or an item to label.

A table of questions has one row per pair (``left, right``), per item of a page (``page, item``) or
per item to label (``item``); ``worker`` is the one to ask, or missing. ``about()`` describes a
question as plain JSON, which is stored in the tasks of a tool, and from which ``question_about``
makes the question again when the answers come back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pyro_crowdclust.data.no_answers import says_cannot_tell
from pyro_crowdclust.data.tables import as_frame, read_table
from pyro_crowdclust.errors import show

SAME, DIFFERENT, CANNOT_TELL = "same", "different", "can't tell"


def is_no_answer(value: Any) -> bool:
    """Whether a value means no answer: it is missing, blank, or a spelling of "can't tell".

    Examples
    --------
    >>> [is_no_answer(value) for value in (None, " ", "Can\u2019t  tell", "can", 0)]
    [True, True, True, False, False]
    """
    if isinstance(value, str):
        return not value.strip() or says_cannot_tell(value)
    return pd.api.types.is_scalar(value) and bool(pd.isna(value))


class Row(NamedTuple):
    """A row of one of the tables of answers."""

    table: str
    values: dict[str, Any]


@dataclass(frozen=True)
class PairQuestion:
    """Are these two the same? The answer is ``"same"`` or ``"different"``."""

    left: Hashable
    right: Hashable
    worker: Hashable | None = None

    sentence = "Are these two the same?"

    @property
    def items(self) -> tuple[Hashable, ...]:
        """The items to show."""
        return self.left, self.right

    @property
    def key(self) -> Hashable:
        """Equal for questions that ask the same: the pair, in either order."""
        return frozenset(self.items)

    def about(self) -> dict[str, Any]:
        """What the question is about, as JSON."""
        return {"left": self.left, "right": self.right}

    def rows(self, answer: str | None) -> Iterator[Row]:
        """The row of an answer, or of a question without one (``is_no_answer``); without worker."""
        if is_no_answer(answer):
            yield Row("unanswered", self.about())
        elif answer in (SAME, DIFFERENT):
            yield Row("pairs", {**self.about(), "label": int(answer == SAME)})
        else:
            raise ValueError(f"the answer is {answer!r}, but must be {SAME!r} or {DIFFERENT!r}")


@dataclass(frozen=True)
class PageQuestion:
    """Which of these belong together? The answer is a mapping from items to their groups."""

    page: Hashable
    items: tuple[Hashable, ...]
    worker: Hashable | None = None

    sentence = "Put items of the same kind into one group."

    @property
    def key(self) -> Hashable:
        """Equal for questions that ask the same: the page and its items."""
        return self.page, frozenset(self.items)

    def about(self) -> dict[str, Any]:
        """What the question is about, as JSON."""
        return {"page": self.page, "items": list(self.items)}

    def rows(self, answer: Mapping[Hashable, Hashable] | None) -> Iterator[Row]:
        """Rows of an answer, without worker; items without a group are unanswered."""
        groups = answer or {}
        for item in self.items:
            values = {"page": self.page, "item": item}
            if item in groups:
                yield Row("placements", {**values, "group": groups[item]})
            else:
                yield Row("unanswered", values)


@dataclass(frozen=True)
class LabelQuestion:
    """Which class is this? The answer is the class."""

    item: Hashable
    worker: Hashable | None = None

    sentence = "What is this?"

    @property
    def items(self) -> tuple[Hashable, ...]:
        """The item to show."""
        return (self.item,)

    @property
    def key(self) -> Hashable:
        """Equal for questions that ask the same: the item."""
        return self.item

    def about(self) -> dict[str, Any]:
        """What the question is about, as JSON."""
        return {"item": self.item}

    def rows(self, answer: Hashable | None) -> Iterator[Row]:
        """The row of an answer, or of an item without one (``is_no_answer``); without worker."""
        if is_no_answer(answer):
            yield Row("unanswered", self.about())
        else:
            yield Row("labels", {**self.about(), "label": answer})


Question = PairQuestion | PageQuestion | LabelQuestion
# A table of them: a data frame, or its columns by their names.
Questions = pd.DataFrame | Mapping[str, Any]


def read_questions(questions: Questions) -> list[Question]:
    """The questions of a table, in its order.

    Raises
    ------
    ValueError
        If the columns do not fit any kind of questions, a cell is missing, a page has an item twice
        or two workers, or an id is neither a text nor an integer.

    Examples
    --------
    >>> read_questions(pd.DataFrame({"left": ["ant"], "right": ["bee"], "worker": ["ann"]}))
    [PairQuestion(left='ant', right='bee', worker='ann')]
    """
    given = as_frame(questions, "questions")
    columns = _columns_of(given)
    frame = read_table(given, "questions", columns)
    ids = {name: [_id(value, f"questions: {name}") for value in frame[name]] for name in columns}
    if "worker" in given:
        workers = given["worker"].tolist()
        ids["worker"] = [None if pd.isna(one) else _id(one, "worker") for one in workers]
    if columns == ["page", "item"]:
        return _pages(pd.DataFrame(ids, dtype=object))
    rows = (dict(zip(ids, row, strict=True)) for row in zip(*ids.values(), strict=True))
    if columns == ["item"]:
        return [LabelQuestion(**row) for row in rows]
    return [PairQuestion(**row) for row in rows]


def question_about(about: Mapping[str, Any]) -> Question:
    """The question that was described by ``about()``; other keys are ignored.

    Raises
    ------
    ValueError
        If it does not describe a question.

    Examples
    --------
    >>> question_about({"page": 1, "items": ["ant", "bee"], "colour": "red"})
    PageQuestion(page=1, items=('ant', 'bee'), worker=None)
    """
    if {"left", "right"} <= about.keys():
        return PairQuestion(_id(about["left"], "left"), _id(about["right"], "right"))
    if {"page", "items"} <= about.keys() and isinstance(about["items"], Sequence):
        items = tuple(_id(item, "items") for item in about["items"])
        return PageQuestion(_id(about["page"], "page"), items)
    if "item" in about:
        return LabelQuestion(_id(about["item"], "item"))
    raise ValueError(
        "it does not contain the question: neither left and right (a pair), nor page and items (a "
        f"page), nor item (a label); it has {list(about)}"
    )


def class_names(classes: Collection[Hashable], form: str) -> list[str]:
    """The classes to choose from in questions for labels, as texts.

    Parameters
    ----------
    classes
        The classes.
    form
        Name of the format, for errors.

    Raises
    ------
    ValueError
        If there are no classes, they are a single text, two have the same text, or one would be
        read as no answer.

    Examples
    --------
    >>> class_names(range(3), "Prodigy")
    ['0', '1', '2']
    """
    if isinstance(classes, str):
        raise ValueError(f"{form}(classes=) is {classes!r}: pass a list of classes")
    names = [str(one) for one in classes]
    if not names:
        raise ValueError(
            f"questions for labels need the classes to choose from: give {form}(classes=)"
        )
    doubled = [name for name, times in Counter(names).items() if times > 1]
    if doubled:
        raise ValueError(f"{form}(classes=) has {doubled[0]!r} twice: name every class once")
    if nothing := [name for name in names if is_no_answer(name)]:
        raise ValueError(
            f"{form}(classes=) has {nothing[0]!r}, which is read as no answer: leave it out, or "
            "rename the class"
        )
    return names


def _columns_of(questions: pd.DataFrame) -> list[str]:
    for columns in (["left", "right"], ["page", "item"], ["item"]):
        if {*columns} <= {*questions.columns}:
            return columns
    raise ValueError(
        "questions have neither columns left, right (pairs) nor page, item (pages) nor item "
        f"(labels); they have {list(questions.columns)}"
    )


def _id(value: Any, name: str) -> Hashable:
    """An id of a type that JSON has."""
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise ValueError(f"{name} is {show(value)}, but ids in files are texts or integers")
    return value


def _pages(frame: pd.DataFrame) -> list[Question]:
    pages: list[Question] = []
    for page, rows in frame.groupby("page", sort=False):
        if rows["item"].duplicated().any():
            twice = show(rows["item"][rows["item"].duplicated()].iloc[0])
            raise ValueError(f"questions: page {show(page)} has the item {twice} twice")
        workers = rows["worker"].unique().tolist() if "worker" in rows else [None]
        if len(workers) > 1:
            raise ValueError(f"questions: page {show(page)} is for several workers: {workers}")
        pages.append(PageQuestion(page, tuple(rows["item"]), workers[0]))
    return pages
