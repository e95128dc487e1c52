"""Tables of more answers, turned into what the data have; errors name rows as they were passed."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from pyro_crowdclust.data.answer_tables import COLUMNS, answer_table
from pyro_crowdclust.data.class_labels import about_repeated_labels
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.pair_answers import about_repeats, labels_of, repeated_answers
from pyro_crowdclust.data.placements import pages_of_single_pairs
from pyro_crowdclust.data.reading import read_parts
from pyro_crowdclust.data.tables import (
    are_among,
    codes_and_ids,
    item_positions,
    read_table,
    reject,
    show,
    to_index,
    unknown,
)


@dataclass(frozen=True, eq=False)
class NewAnswers:
    """Answers in a table of the kind that the data have, and the table that they were passed in.

    Attributes
    ----------
    kind
        What the table holds: ``pairs``, ``placements`` or ``labels``.
    table
        The answers.
    given
        What the user calls the table that was passed.
    index
        The index of its rows.
    row
        Which of these rows every answer is of.
    warnings
        What there is to say of them alone.
    """

    kind: str
    table: pd.DataFrame
    given: str
    index: pd.Index
    row: Int[np.ndarray, " answer"]
    warnings: tuple[str, ...] = ()

    @classmethod
    def read(
        cls, given: str, table: Any, ids: pd.Index, grades: Any, classes: Iterable[Hashable] | None
    ) -> NewAnswers:
        """Answers in a table as it was passed.

        Parameters
        ----------
        given
            ``pairs``, ``placements`` or ``labels``.
        table
            As for ``CrowdData``.
        ids
            Ids of all items.
        grades, classes
            Of the data.

        Raises
        ------
        ValueError
            For what ``CrowdData`` refuses, naming rows of this table.
        """
        of_kind = {"pairs": {"grades": grades}, "placements": {}, "labels": {"classes": classes}}
        may_lack = ["label"] if given == "pairs" and grades is not None else []
        options = of_kind[given] | {"item_ids": ids}
        parts, found = recorded(**{given: table}, **options)
        frame = answer_table(given, table, may_lack)
        assert frame is not None
        if given == "pairs":  # as they were read: what is none of the grades is said once
            frame = frame.assign(label=labels_of(parts["answers"], parts["grade_ids"]))
        # What is wrong with workers and classes all answers together say.
        of_rows = tuple(message for message in found if message.startswith(f"{given} row "))
        return cls(given, frame, given, frame.index, np.arange(len(frame)), of_rows)

    def as_pairs(self, ids: pd.Index) -> NewAnswers:
        """Sorted pages as answers about all their pairs, each of the later of its two rows."""
        data = _alone("placements", self.table, item_ids=ids).as_pairs()
        answers, pairs = data.answers, data.pairs
        assert answers is not None
        assert answers.page is not None
        assert pairs is not None
        page, _ = codes_and_ids(self.table["page"], "placements")
        item = item_positions("placements", self.table["item"], ids)
        # An item is on a page once, so that both tell the row.
        places = pd.Index((page * len(ids) + item).numpy())
        rows = [
            places.get_indexer((answers.page * len(ids) + end).numpy())
            for end in (answers.left, answers.right)
        ]
        return replace(self, kind="pairs", table=pairs, row=np.maximum(*rows))

    def as_placements(self, taken: Iterable[Hashable]) -> NewAnswers:
        """Answers about pairs as the pages that people sorted.

        Pairs that were asked one by one are pages of two items, with ids that are not taken.
        """
        table = _paged(self.table, {*taken})
        data = _alone("pairs", table)
        assert data.answers is not None
        try:
            pages = data.as_placements().pages
        except ValueError as error:
            raise ValueError(
                f"the fit was of sorted pages, but {error}; ask for pages, or fit anew to all "
                "answers as pairs (data.as_pairs().pairs are those of the fit)"
            ) from error
        assert pages is not None
        # Where an answer is on its page nobody knows any more, and copies of it are gone.
        repeated = repeated_answers(data.answers)
        found = [about_repeats("pairs", self.index, repeated)] if repeated.any() else []
        nowhere, said = np.full(len(pages), -1), (*self.warnings, *found)
        return replace(self, kind="placements", table=pages, row=nowhere, warnings=said)

    def after(self, before: pd.DataFrame | None) -> pd.DataFrame:
        """Earlier answers and then these, which have pages if those have.

        Raises
        ------
        ValueError
            For a page that there is already.
        """
        table = self.table
        if before is None:
            return table
        if "page" in table and "page" not in before:
            table = table.drop(columns="page")  # the model is of answers without pages
        if "page" in before:
            table = _paged(table, {*before["page"]})  # those without were asked one by one
            again = are_among(table["page"], before["page"])
            if again.any():
                raise ValueError(
                    f"{self.given}: page {show(table['page'][again].iloc[0])} was answered before; "
                    "give new pages ids of their own"
                )
        return pd.concat([before, table], ignore_index=True)

    def about_repeats(self, repeated: Bool[np.ndarray, " answer"]) -> list[str]:
        """What there is to say of answers that repeat earlier ones."""
        rows = np.zeros(len(self.index), dtype=bool)
        rows[self.row[repeated]] = True
        if not rows.any():
            return []
        if self.kind == "labels":
            return [about_repeated_labels(self.index, rows)]
        return [about_repeats(self.given, self.index, rows)]


def recorded(**tables: Any) -> tuple[dict[str, Any], list[str]]:
    """The parts of data of these answers, and what there is to warn of."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        parts = read_parts(**tables)
    return parts, [str(one.message) for one in found]


def _alone(name: str, table: pd.DataFrame, **options: Any) -> CrowdData:
    """Data of answers that were read before."""
    return CrowdData.of_parts(**recorded(**{name: table}, **options)[0])


def _paged(table: pd.DataFrame, taken: set[Hashable]) -> pd.DataFrame:
    """The table, with a page of its own for every row where it has none."""
    if "page" in table:
        return table
    return table.assign(page=pages_of_single_pairs(len(table), taken))


def check_items(name: str, table: Any, ids: pd.Index, with_features: bool) -> None:
    """Raise a ``ValueError`` for answers about items that are none, and say how to add some."""
    table = read_table(table, name, *COLUMNS[name], may_lack=["label"])
    for column in [one for one in ("left", "right", "item") if one in table]:
        missing = ids.get_indexer(to_index(table[column], f"{name} column '{column}'")) < 0
        if missing.any():
            wanted = table[column].iloc[int(missing.argmax())]
            by = f"{'features= and ' if with_features else ''}item_ids=[{show(wanted)}]"
            remedy = f"add it as a new item by {by}"
            reject(name, table[column], missing, unknown(ids, wanted, remedy))
