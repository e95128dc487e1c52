"""What people said, as the tables that ``CrowdData`` takes."""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import pandas as pd

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.pair_answers import are_levels
from pyro_crowdclust.data.tables import reject, show
from pyro_crowdclust.exchange.questions import Question

_COLUMNS = {
    "pairs": ["left", "right", "worker", "label"],
    "placements": ["page", "item", "worker", "group"],
    "labels": ["item", "worker", "label"],
    "unanswered": ["left", "right", "page", "item", "worker"],
}
_OF_ITEMS = ("left", "right", "item")


@dataclass(frozen=True)
class Said:
    """What a worker said to a question.

    Attributes
    ----------
    question, worker
        Who answered what.
    answer
        What the question calls an answer; None where there is none.
    seconds
        How long it took, if that is known.
    """

    question: Question
    worker: Hashable
    answer: Any
    seconds: float | None = None


@dataclass(frozen=True)
class CrowdAnswers:
    """Answers that came back, table by table.

    Attributes
    ----------
    pairs
        ``left, right, worker, label``: 1 for "same", 0 for "different"; or the words, in a table
        that somebody filled in.
    placements
        ``page, item, worker, group``: pages that people sorted.
    labels
        ``item, worker, label``.
    unanswered
        ``left, right, page, item, worker``: what somebody skipped or could not tell, one row per
        pair, item of a page or item.

    Where a tool measures it, ``seconds`` is what the answer, or the whole page, took. A page that
    several workers sorted has an id for each, such as ``3 of ann``.
    """

    pairs: pd.DataFrame
    placements: pd.DataFrame
    labels: pd.DataFrame
    unanswered: pd.DataFrame

    @classmethod
    def of(cls, said: Iterable[Said]) -> CrowdAnswers:
        """Tables of answers; of two by one worker to the same question the last counts.

        A pair is the same question in either order.

        Raises
        ------
        ValueError
            If an answer is none to its question.

        Examples
        --------
        >>> from pyro_crowdclust.exchange.questions import PairQuestion
        >>> ants, others = PairQuestion("ant", "bee"), PairQuestion("ant", "cat")
        >>> answers = CrowdAnswers.of([Said(ants, "ann", "same"), Said(others, "ann", None)])
        >>> answers
        CrowdAnswers(1 pair, 1 unanswered)
        >>> answers.pairs
          left right worker  label
        0  ant   bee    ann      1
        """
        last = {(one.question.key, one.worker): one for one in said}
        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in _COLUMNS}
        for one in last.values():
            who = {"worker": one.worker}
            took = {} if one.seconds is None else {"seconds": one.seconds}
            try:
                for table, values in one.question.rows(one.answer):
                    rows[table].append({**values, **who, **took})
            except ValueError as error:
                about = {**one.question.about(), **who}
                raise ValueError(f"of {about}: {error}") from error
        return cls.of_tables(**{name: pd.DataFrame(found) for name, found in rows.items() if found})

    @classmethod
    def of_tables(cls, **tables: pd.DataFrame) -> CrowdAnswers:
        """Tables of some of the four kinds, by name; the others are empty."""
        whole = {
            name: _with_columns(tables.get(name, pd.DataFrame()), columns)
            for name, columns in _COLUMNS.items()
        }
        whole["placements"] = _with_own_pages(whole["placements"])
        return cls(**whole)

    @classmethod
    def joined(cls, parts: Iterable[CrowdAnswers]) -> CrowdAnswers:
        """All answers of several files.

        Raises
        ------
        ValueError
            If a worker sorted a page in two of them: which groups are the same is not known.
        """
        found: dict[str, list[pd.DataFrame]] = {name: [] for name in _COLUMNS}
        seen: set[tuple[Hashable, Hashable]] = set()
        for part in parts:
            pages = {*zip(part.placements["page"], part.placements["worker"], strict=True)}
            if twice := sorted(seen & pages, key=str):
                page, worker = twice[0]
                raise ValueError(
                    f"{show(worker)} sorted page {show(page)} in two of the files: leave out the "
                    "older one, or rename its pages"
                )
            seen |= pages
            for name, some in found.items():
                some += [table for table in [getattr(part, name)] if len(table)]
        return cls.of_tables(
            **{name: pd.concat(some, ignore_index=True) for name, some in found.items() if some}
        )

    def for_items(self, item_ids: Iterable[Hashable]) -> CrowdAnswers:
        """The same answers with the items' own ids, where a file made texts of them.

        Examples
        --------
        >>> table = pd.DataFrame({"item": ["7"], "worker": ["ann"], "label": ["dog"]})
        >>> CrowdAnswers.of_tables(labels=table).for_items([6, 7, 8]).labels["item"].tolist()
        [7]
        """
        items = _by_text(item_ids)
        return self._with_own(dict.fromkeys(_COLUMNS, dict.fromkeys(_OF_ITEMS, items)))

    def for_data(self, data: CrowdData) -> CrowdAnswers:
        """The same answers with the data's own items, workers, classes and grades.

        A file makes texts of them all. What the data do not know stays as it is.

        Raises
        ------
        ValueError
            If the data have grades, and people answered "same" or "different".

        Examples
        --------
        >>> known = {"item": [6, 7], "worker": [1, 1], "label": [0, 1]}
        >>> table = pd.DataFrame({"item": ["6"], "worker": ["2"], "label": ["1"]})
        >>> answers = CrowdAnswers.of_tables(labels=table)
        >>> answers.for_data(CrowdData(None, labels=known)).labels.to_numpy().tolist()
        [[6, '2', 1]]
        """
        ids = dict.fromkeys(_OF_ITEMS, _by_text(data.item_ids))
        ids["worker"] = _by_text(data.worker_ids)
        own = {name: dict(ids) for name in _COLUMNS}
        own["labels"]["label"] = _by_text(data.class_ids)
        if len(data.grade_ids):
            check_graded(self.pairs, data.grade_ids)
            own["pairs"]["label"] = _by_text(data.grade_ids)
        return self._with_own(own)

    def _with_own(self, ids: Mapping[str, Mapping[str, Mapping[str, Hashable]]]) -> CrowdAnswers:
        """The same answers with other ids, by table, column and text."""
        changed = {}
        for name, columns in ids.items():
            table = getattr(self, name)
            replaced = {
                column: _replaced(table[column], own)
                for column, own in columns.items()
                if column in table
            }
            changed[name] = table.assign(**replaced)
        return CrowdAnswers(**changed)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The answers that there are, under the names by which ``CrowdData`` takes them."""
        names = [field.name for field in fields(self) if field.name != "unanswered"]
        return {name: getattr(self, name) for name in names if len(getattr(self, name))}

    def __repr__(self) -> str:
        counts = {name.removesuffix("s"): len(table) for name, table in self.tables().items()}
        words = [f"{number} {noun}{'s' * (number != 1)}" for noun, number in counts.items()]
        return f"CrowdAnswers({', '.join([*words, f'{len(self.unanswered)} unanswered'])})"


def check_graded(pairs: pd.DataFrame, grades: pd.Index) -> None:
    """Raise a ``ValueError`` where a tool asked "same or different?", and answers are grades.

    Tools write their choices as the numbers 1 and 0; grades come as texts, from tables that people
    filled in. Where labels are probabilities, 1 and 0 are such.
    """
    labels = pairs["label"]
    is_number = labels.map(lambda one: isinstance(one, numbers.Real)).to_numpy(bool)
    if are_levels(grades) or {*grades} <= {0, 1} or not labels[is_number].isin([0, 1]).all():
        return
    reject(
        "pairs",
        labels,
        is_number,
        f'"same" (1) or "different" (0) of a tool, but the answers of the fit are the grades '
        f"{[*grades]}: leave these answers out, and ask for grades in a table to fill in "
        "(PlainCsv, --format csv)",
    )


def _by_text(ids: Iterable[Hashable]) -> dict[str, Hashable]:
    """Ids by what a file makes of them; numbers without a fraction also with or without ".0"."""
    found: dict[str, Hashable] = {}
    exact: dict[str, Hashable] = {}
    for one in ids:
        exact[str(one)] = one
        if isinstance(one, numbers.Real) and not isinstance(one, bool) and one == one // 1:
            whole = math.floor(one)
            found |= {str(whole): one, f"{whole}.0": one}
    return found | exact


def _replaced(column: pd.Series, ids: Mapping[str, Hashable]) -> pd.Series:
    values = [one if pd.isna(one) else ids.get(str(one), one) for one in column]
    return pd.Series(values, column.index)


def _with_columns(table: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """The table with these columns in front."""
    return table.reindex(columns=[*columns, *table.columns.difference(columns, sort=False)])


def _with_own_pages(placements: pd.DataFrame) -> pd.DataFrame:
    """The placements with a page of its own for every worker, where several sorted the same."""
    shared = placements.groupby("page")["worker"].transform("nunique") > 1
    if not shared.any():
        return placements
    names = [
        f"{page} of {worker}" if several else page
        for page, worker, several in zip(
            placements["page"], placements["worker"], shared, strict=True
        )
    ]
    return placements.assign(page=pd.Series(names, placements.index, dtype=object))
