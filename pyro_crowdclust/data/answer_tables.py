"""The tables that hold answers: the names under which they are passed, and their columns."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool

from pyro_crowdclust.data.tables import GRADES_REMEDY, are_blank, as_frame, read_table, where
from pyro_crowdclust.errors import plain_name, warn

# Columns that the tables of answers must have, and may have.
COLUMNS = {
    "pairs": (["left", "right", "worker", "label"], ["page"]),
    "labels": (["item", "worker", "label"], []),
    "placements": (["page", "item", "worker", "group"], []),
}
# The columns that hold what was said.
_SAID = {"pairs": "label", "labels": "label", "placements": "group"}


def check_given(features: Any, pairs: Any, placements: Any, labels: Any, **options: Any) -> None:
    """Refuse options without the table that they describe, and pairs together with placements."""
    for option, what, given in (
        ("grades", "pairs", pairs),
        ("classes", "labels", labels),
        ("kinds", "features", features),
        ("likeness", "pairs", pairs),
    ):
        if options[option] is not None and given is None:
            raise ValueError(
                f"{option} are given without {what}; pass {what}, or leave {option} out"
            )
    if pairs is not None and placements is not None:
        raise ValueError(
            "pairs and placements cannot be combined; pass only placements, or, in place of both, "
            "all answers as pairs: **pyro_crowdclust.exchange.CrowdAnswers.of_tables(pairs=..., "
            "placements=...).tables()"
        )


def answers_with(columns: Iterable[Hashable]) -> str | None:
    """Which answers a table with these columns holds, as ``CrowdData`` calls them; None if none."""
    found = {*map(plain_name, columns)}
    return next((name for name, (own, _) in COLUMNS.items() if {*own} <= found), None)


def refuse_answers(features: Any) -> None:
    """Raise a ``ValueError`` for a table of answers where the features should be."""
    if isinstance(features, pd.DataFrame) and (name := answers_with(features.columns)):
        raise ValueError(
            f"features have the columns {', '.join(COLUMNS[name][0])}, as {name} do: pass the "
            f"table as {name}={name}, and the features, or None where there are none, first"
        )


def answer_table(name: str, table: Any | None, may_lack: Sequence[str] = ()) -> pd.DataFrame | None:
    """The table that is passed under a name, with its columns; None if none is.

    Rows without a label, or a group, are left out unless ``may_lack`` names this column: these
    workers were asked, but did not answer.

    Raises
    ------
    ValueError
        As in ``read_table``, and if no row has a label, or a group.

    Examples
    --------
    >>> said = {"item": ["ant", "bee"], "worker": ["ann", "ann"], "label": ["insect", None]}
    >>> answer_table("labels", said)
      item worker   label
    0  ant    ann  insect
    """
    if table is None:
        return None
    if name == "labels" or _SAID[name] not in may_lack:
        table = as_frame(table, name)
        skipped = _without_answer(name, table)
        if skipped.any():
            if skipped.all():
                raise ValueError(
                    f"every {_SAID[name]} is missing: fill them in, or leave {name} out"
                    f"{_if_an_answer(name)}"
                )
            table = table[~skipped]
        may_lack = [*may_lack, _SAID[name]]  # it was looked for here
    return read_table(table, name, *COLUMNS[name], may_lack)


def warn_about_skipped(name: str, given: Any | None, kept: pd.DataFrame | None) -> None:
    """Warn of rows that ``answer_table`` left out of those that were given under a name."""
    if given is None or kept is None:
        return
    frame = as_frame(given, name)
    if len(kept) < len(frame):
        said, skipped = _SAID[name], _without_answer(name, frame)
        warn(
            f"{where(name, frame.index, skipped)}: {said} is missing; rows without a {said} are "
            f"skipped{_if_an_answer(name)}"
        )


def _if_an_answer(name: str) -> str:
    """What to do where rows without a label say something."""
    return f"; {GRADES_REMEDY}" if name == "pairs" else ""


def _without_answer(name: str, frame: pd.DataFrame) -> Bool[np.ndarray, " row"]:
    """Which rows have no label, or no group, if there is a column of these."""
    said = _SAID[name]
    if [*frame.columns].count(said) != 1:  # an error of ``read_table``
        return np.zeros(len(frame), dtype=bool)
    return frame[said].isna().to_numpy(bool) | are_blank(frame[said])
