"""Answers from annotation tools, as the tables that ``CrowdData`` takes."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import pandas as pd

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.pair_tables import are_levels
from pyro_crowdclust.data.placements import pages_of_single_pairs
from pyro_crowdclust.data.tables import LINE, PLACE, reject
from pyro_crowdclust.errors import count, show, warn
from pyro_crowdclust.exchange.questions import Question

_COLUMNS = {
    "pairs": ["left", "right", "worker", "label"],
    "placements": ["page", "item", "worker", "group"],
    "labels": ["item", "worker", "label"],
    "unanswered": ["left", "right", "page", "item", "worker"],
}
_ITEM_COLUMNS = ("left", "right", "item")


@dataclass(frozen=True)
class GivenAnswer:
    """The answer of a worker to a question.

    Attributes
    ----------
    question, worker
        The question, and the id of the worker.
    answer
        The answer, as the question's class describes it; None if there is no answer.
    seconds
        How long it took, if this is known.
    """

    question: Question
    worker: Hashable
    answer: Any
    seconds: float | None = None


@dataclass(frozen=True)
class CrowdAnswers:
    """Answers from a tool, as one table for each kind of answers.

    Attributes
    ----------
    pairs
        ``left, right, worker, label``: 1 for "same", 0 for "different"; or the words, in a table
        that was filled in by hand.
    placements
        ``page, item, worker, group``: sorted pages.
    labels
        ``item, worker, label``.
    unanswered
        ``left, right, page, item, worker``: questions that were skipped or answered "can't tell",
        one row per pair, item of a page or item.

    If a tool measures it, the column ``seconds`` is the time for the answer, or for the whole page.
    A page that several workers sorted has an id for each, such as ``3 of ann``.
    """

    pairs: pd.DataFrame
    placements: pd.DataFrame
    labels: pd.DataFrame
    unanswered: pd.DataFrame

    @classmethod
    def of(cls, given: Iterable[GivenAnswer]) -> CrowdAnswers:
        """Tables of answers; if a worker answered a question twice, the last answer counts.

        A pair is the same question in either order.

        Raises
        ------
        ValueError
            If an answer is not possible for its question.

        Examples
        --------
        >>> from pyro_crowdclust.exchange.questions import PairQuestion
        >>> ants, others = PairQuestion("ant", "bee"), PairQuestion("ant", "cat")
        >>> answers = CrowdAnswers.of(
        ...     [GivenAnswer(ants, "ann", "same"), GivenAnswer(others, "ann", None)]
        ... )
        >>> answers
        CrowdAnswers(1 pair, 1 unanswered)
        >>> answers.pairs
          left right worker  label
        0  ant   bee    ann      1
        """
        last = {(one.question.key, one.worker): one for one in given}
        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in _COLUMNS}
        for one in last.values():
            who = {"worker": one.worker}
            took = {} if one.seconds is None else {"seconds": one.seconds}
            try:
                for table, values in one.question.rows(one.answer):
                    rows[table].append({**values, **who, **took})
            except ValueError as error:
                about = {**one.question.about(), **who}
                raise ValueError(f"answer about {about}: {error}") from error
        return cls.of_tables(**{name: pd.DataFrame(found) for name, found in rows.items() if found})

    @classmethod
    def of_tables(cls, **tables: pd.DataFrame) -> CrowdAnswers:
        """Tables of some of the four kinds, by name; the others are empty."""
        whole = {
            name: _with_columns(tables.get(name, pd.DataFrame()), columns)
            for name, columns in _COLUMNS.items()
        }
        whole["placements"] = _with_separate_pages(whole["placements"])
        return cls(**whole)

    @classmethod
    def joined(cls, parts: Iterable[CrowdAnswers]) -> CrowdAnswers:
        """All answers of several files.

        A page that is in two of them, item for item in the same groups, counts once, with a
        warning: whoever goes on with a page that was saved saves all its answers again.

        Raises
        ------
        ValueError
            If a worker sorted a page in two ways, since the two groupings cannot be joined.
        """
        found: dict[str, list[pd.DataFrame]] = {name: [] for name in _COLUMNS}
        seen: dict[tuple[Hashable, Hashable], dict[Hashable, Hashable]] = {}
        saved_again = []
        for part in parts:
            pages = part._groups_of_pages()
            again = sorted(pages.keys() & seen.keys(), key=str)
            for page, worker in again:
                if pages[page, worker] != seen[page, worker]:
                    raise ValueError(
                        f"{show(worker)} sorted page {show(page)} in two of the files, in two "
                        "ways: leave out the older one"
                    )
            saved_again += again
            seen |= pages
            for name, table in part._without_pages(again)._tables().items():
                found[name] += [table] if len(table) else []
        if saved_again:
            page, worker = saved_again[0]
            warn(
                f"{show(worker)} sorted page {show(page)} in two of the files in the same way "
                f"({count(len(saved_again), 'such page')}): it counts once"
            )
        return cls.of_tables(
            **{name: _one_below_another(some) for name, some in found.items() if some}
        )

    def _groups_of_pages(self) -> dict[tuple[Hashable, Hashable], dict[Hashable, Hashable]]:
        """By page and worker, the group of every item."""
        pages: dict[tuple[Hashable, Hashable], dict[Hashable, Hashable]] = {}
        for row in self.placements[_COLUMNS["placements"]].itertuples(index=False, name=None):
            page, item, worker, group = row
            pages.setdefault((page, worker), {})[item] = group
        return pages

    def _without_pages(self, pages: Collection[tuple[Hashable, Hashable]]) -> CrowdAnswers:
        """The answers without these pages of workers, and what is unanswered on them."""
        left_out = pd.Index([*pages], tupleize_cols=False)
        kept = self._tables()
        for name in ("placements", "unanswered"):
            table = kept[name]
            of_rows = [*zip(table["page"], table["worker"], strict=True)]
            kept[name] = table[~pd.Index(of_rows, tupleize_cols=False).isin(left_out)]
        return CrowdAnswers(**kept)

    def _tables(self) -> dict[str, pd.DataFrame]:
        """All four tables by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def in_file(self, name: str) -> CrowdAnswers:
        """The answers with an index that also names the file, if it says on which line they are."""
        tables = self._tables()
        for kind, table in tables.items():
            if table.index.name == LINE:
                places = [f"{name} line {line}" for line in table.index]
                tables[kind] = table.set_axis(pd.Index(places, dtype=object, name=PLACE))
        return CrowdAnswers(**tables)

    def for_items(self, item_ids: Iterable[Hashable]) -> CrowdAnswers:
        """The answers with the original ids of items, which files turn into texts.

        Examples
        --------
        >>> table = pd.DataFrame({"item": ["7"], "worker": ["ann"], "label": ["dog"]})
        >>> CrowdAnswers.of_tables(labels=table).for_items([6, 7, 8]).labels["item"].tolist()
        [7]
        """
        items = _by_text(item_ids)
        return self._with_ids(dict.fromkeys(_COLUMNS, dict.fromkeys(_ITEM_COLUMNS, items)))

    def for_data(self, data: CrowdData) -> CrowdAnswers:
        """The answers with the original ids of items, workers, classes and grades of the data.

        Files turn all of them into texts. Ids that are not in the data stay as they are.

        Raises
        ------
        ValueError
            If the data have grades, and the answers are "same" or "different".

        Examples
        --------
        >>> known = {"item": [6, 7], "worker": [1, 1], "label": [0, 1]}
        >>> table = pd.DataFrame({"item": ["6"], "worker": ["2"], "label": ["1"]})
        >>> answers = CrowdAnswers.of_tables(labels=table)
        >>> answers.for_data(CrowdData(None, labels=known)).labels.to_numpy().tolist()
        [[6, '2', 1]]
        """
        ids = dict.fromkeys(_ITEM_COLUMNS, _by_text(data.item_ids))
        ids["worker"] = _by_text(data.worker_ids)
        own = {name: dict(ids) for name in _COLUMNS}
        own["labels"]["label"] = _by_text(data.class_ids)
        if len(data.grade_ids):
            check_graded(self.pairs, data.grade_ids)
            own["pairs"]["label"] = _by_text(data.grade_ids)
        return self._with_ids(own)

    def _with_ids(self, ids: Mapping[str, Mapping[str, Mapping[str, Hashable]]]) -> CrowdAnswers:
        """The answers with ids replaced, by table, column and text."""
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
        """The tables with answers, under the names of the arguments of ``CrowdData``.

        It takes pairs or placements. Where there are both, the pages become answers about their
        pairs, and each pair that is on no page gets one of its own.

        Examples
        --------
        >>> pages = pd.DataFrame({"page": 1, "item": ["a", "b"], "worker": "ann", "group": 1})
        >>> pairs = pd.DataFrame({"left": ["a"], "right": ["c"], "worker": ["ben"], "label": [0]})
        >>> found = CrowdAnswers.of_tables(pairs=pairs, placements=pages).tables()
        >>> found["pairs"].to_numpy().tolist()
        [['a', 'c', 'ben', 0, 'pair 0'], ['a', 'b', 'ann', 1, 1]]
        """
        return _as_one_table(self._given)

    @property
    def _given(self) -> dict[str, pd.DataFrame]:
        """The tables with answers."""
        tables = self._tables()
        return {name: tables[name] for name in tables if name != "unanswered" and len(tables[name])}

    def __repr__(self) -> str:
        counts = {name.removesuffix("s"): len(table) for name, table in self._given.items()}
        words = [f"{number} {noun}{'s' * (number != 1)}" for noun, number in counts.items()]
        return f"CrowdAnswers({', '.join([*words, f'{len(self.unanswered)} unanswered'])})"


def _one_below_another(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """The tables as one, with their rows numbered unless all say in which file they are."""
    are_placed = all(table.index.name == PLACE for table in tables)
    return pd.concat(tables, ignore_index=not are_placed)


def _as_one_table(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Where there are both pages and single pairs, pages become answers about their pairs.

    Each single pair is then a page of its own.
    """
    if "pairs" not in tables:
        return tables
    pairs = _one_below_another([tables["pairs"]])
    if "placements" in tables:
        of_pages = CrowdData(None, placements=tables["placements"]).as_pairs().pairs
        assert of_pages is not None  # as there are pages
        # As objects, page ids that are integers stay so beside missing ones.
        of_pages = of_pages.astype({"page": object})
        pairs = pd.concat([pairs, of_pages], ignore_index=True)
    if "page" in pairs:
        taken, single = {*pairs["page"]}, pairs["page"].isna()
        pairs["page"] = pairs["page"].astype(object)
        pairs.loc[single, "page"] = pages_of_single_pairs(int(single.sum()), taken)
    others = {name: table for name, table in tables.items() if name != "placements"}
    return others | {"pairs": pairs}


def check_graded(pairs: pd.DataFrame, grades: pd.Index) -> None:
    """Raise a ``ValueError`` if answers are "same" or "different", but the fit has grades.

    Tools export these answers as the numbers 1 and 0; grades are texts, from tables that were
    filled in. If labels are probabilities, 1 and 0 are allowed.
    """
    labels = pairs["label"]
    is_number = labels.map(lambda one: isinstance(one, numbers.Real)).to_numpy(bool)
    if are_levels(grades) or {*grades} <= {0, 1} or not labels[is_number].isin([0, 1]).all():
        return
    reject(
        "pairs",
        labels,
        is_number,
        f'"same" (1) or "different" (0) from a tool, but the answers of the fit are the grades '
        f"{[*grades]}: leave these answers out, and collect grades with a table to fill in "
        "(PlainCsv, --format csv)",
    )


def _by_text(ids: Iterable[Hashable]) -> dict[str, Hashable]:
    """Ids by their texts in a file; whole numbers also with and without ".0".

    Also without spaces at the ends, which spreadsheets remove, where this is a single id.
    """
    exact: dict[str, Hashable] = {}
    of_stripped: dict[str, list[Hashable]] = {}
    for one in ids:
        exact[str(one)] = one
        of_stripped.setdefault(str(one).strip(), []).append(one)
    found = {text: own[0] for text, own in of_stripped.items() if len(own) == 1}
    for one in exact.values():
        if isinstance(one, numbers.Real) and not isinstance(one, bool) and one == one // 1:
            whole = math.floor(one)
            found |= {str(whole): one, f"{whole}.0": one}
    return found | exact


def _replaced(column: pd.Series, ids: Mapping[str, Hashable]) -> pd.Series:
    values = [one if pd.isna(one) else ids.get(str(one), one) for one in column]
    return pd.Series(values, column.index)


def _with_columns(table: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """The table with these columns first; missing ones are added."""
    return table.reindex(columns=[*columns, *table.columns.difference(columns, sort=False)])


def _with_separate_pages(placements: pd.DataFrame) -> pd.DataFrame:
    """The placements with separate page ids for workers who sorted the same page."""
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
