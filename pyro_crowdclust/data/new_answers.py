"""New answers in the form that the data have; errors name the rows of the tables as passed."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from pyro_crowdclust.data.answer_tables import answer_table
from pyro_crowdclust.data.class_labels import message_about_repeated_labels
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.pair_answers import labels_of, message_about_repeats, repeated_answers
from pyro_crowdclust.data.placements import pages_of_single_pairs
from pyro_crowdclust.data.reading import read_parts
from pyro_crowdclust.data.repeats import look_copied
from pyro_crowdclust.data.tables import (
    are_among,
    codes_and_ids,
    item_positions,
    reject,
    to_index,
    unknown,
)
from pyro_crowdclust.errors import show


@dataclass(frozen=True, eq=False)
class NewAnswers:
    """New answers in the form that the data have, and the rows of the user's table they come from.

    Attributes
    ----------
    kind
        What the table holds: ``pairs``, ``placements`` or ``labels``.
    table
        The answers.
    given
        Name of the table that the user passed.
    index
        The index of its rows.
    row
        The row of that table from which every answer comes.
    warnings
        Warnings about these answers alone.
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
        """The answers of a table as the user passed it.

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
        if given == "pairs":  # as they were read, so that a label that is no grade warns once
            frame = frame.assign(label=labels_of(parts["answers"], parts["grade_ids"]))
        # Warnings about workers and classes come when all answers are read together.
        of_rows = tuple(message for message in found if message.startswith(f"{given} row "))
        return cls(given, frame, given, frame.index, np.arange(len(frame)), of_rows)

    def as_pairs(self, ids: pd.Index) -> NewAnswers:
        """Sorted pages as answers about all their pairs, each from the later of its two rows."""
        data = _alone("placements", self.table, item_ids=ids).as_pairs()
        answers, pairs = data.needed_answers, data.pairs
        assert pairs is not None
        page, _ = codes_and_ids(self.table["page"], "placements")
        item = item_positions("placements", self.table["item"], ids)
        # An item is on a page only once, so page and item determine the row.
        places = pd.Index((page * len(ids) + item).numpy())
        rows = [
            places.get_indexer((answers.needed_page * len(ids) + end).numpy())
            for end in (answers.left, answers.right)
        ]
        return replace(self, kind="pairs", table=pairs, row=np.maximum(*rows))

    def as_placements(self, taken: Iterable[Hashable]) -> NewAnswers:
        """Answers about pairs as sorted pages.

        Pairs without a page become pages of two items, with ids that are not in ``taken``.
        """
        table = _paged(self.table, {*taken})
        data = _alone("pairs", table)
        try:
            pages = data.as_placements().pages
        except ValueError as error:
            raise ValueError(
                f"the fit used sorted pages, but {error}; ask for pages, or fit anew to all "
                "answers as pairs (data.as_pairs().pairs are those of the fit)"
            ) from error
        assert pages is not None
        # Placements show neither the rows that they come from nor repeated answers.
        repeated = repeated_answers(data.needed_answers)
        found = (
            [message_about_repeats("pairs", self.index, repeated)] if look_copied(repeated) else []
        )
        no_row, messages = np.full(len(pages), -1), (*self.warnings, *found)
        return replace(self, kind="placements", table=pages, row=no_row, warnings=messages)

    def after(self, before: pd.DataFrame | None) -> pd.DataFrame:
        """The earlier answers followed by these, which have pages if the earlier ones have.

        Raises
        ------
        ValueError
            If a page was answered before.
        """
        table = self.table
        if before is None:
            return table
        if "page" in table and "page" not in before:
            table = table.drop(columns="page")  # the model ignores pages
        if "page" in before:
            table = _paged(table, {*before["page"]})  # rows without a page were asked one by one
            again = are_among(table["page"], before["page"])
            if again.any():
                raise ValueError(
                    f"{self.given}: page {show(table['page'][again].iloc[0])} was answered before; "
                    "give new pages ids of their own"
                )
        return pd.concat([before, table], ignore_index=True)

    def messages_about_repeats(
        self, repeated: Bool[np.ndarray, " answer"], in_full: bool
    ) -> list[str]:
        """The warning about those that repeat earlier ones, if they look like copies.

        ``in_full`` if labels that do so count in full.
        """
        rows = np.zeros(len(self.index), dtype=bool)
        rows[self.row[repeated]] = True
        if not look_copied(rows):
            return []
        if self.kind == "labels":
            return [message_about_repeated_labels(self.index, rows, in_full)]
        return [message_about_repeats(self.given, self.index, rows)]


def recorded(**tables: Any) -> tuple[dict[str, Any], list[str]]:
    """The fields of ``CrowdData`` for these tables, and the warnings that reading them gave."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        parts = read_parts(**tables)
    return parts, [str(one.message) for one in found]


def _alone(name: str, table: pd.DataFrame, **options: Any) -> CrowdData:
    """Data of one table of answers, which was read before: the warnings are not repeated."""
    return CrowdData.of_parts(**recorded(**{name: table}, **options)[0])


def _paged(table: pd.DataFrame, taken: set[Hashable]) -> pd.DataFrame:
    """The table, with a page of its own for every row where it has none."""
    if "page" in table:
        return table
    return table.assign(page=pages_of_single_pairs(len(table), taken))


def check_items(name: str, table: Any, ids: pd.Index, with_features: bool) -> None:
    """Raise a ``ValueError`` about unknown items in answers, which says how to add them."""
    table = answer_table(name, table, may_lack=["label"])
    assert table is not None
    for column in [one for one in ("left", "right", "item") if one in table]:
        missing = ids.get_indexer(to_index(table[column], f"{name} column '{column}'")) < 0
        if missing.any():
            wanted = table[column].iloc[int(missing.argmax())]
            by = f"{'features= and ' if with_features else ''}item_ids=[{show(wanted)}]"
            remedy = f"add it as a new item by {by}"
            reject(name, table[column], missing, unknown(ids, wanted, remedy))
