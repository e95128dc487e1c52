"""The tables that hold answers: the names under which they are passed, and their columns."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import pandas as pd

from pyro_crowdclust.data.tables import read_table

# Columns that the tables of answers must have, and may have.
COLUMNS = {
    "pairs": (["left", "right", "worker", "label"], ["page"]),
    "labels": (["item", "worker", "label"], []),
    "placements": (["page", "item", "worker", "group"], []),
}


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
            "pairs and placements cannot be combined; pass only placements, or all answers as "
            "pairs (CrowdData(None, placements=...).as_pairs().pairs are those of placements)"
        )


def answers_with(columns: Iterable[Hashable]) -> str | None:
    """Which answers a table with these columns holds, as ``CrowdData`` calls them; None if none."""
    found = {*columns}
    return next((name for name, (own, _) in COLUMNS.items() if {*own} <= found), None)


def refuse_answers(features: Any) -> None:
    """Raise a ``ValueError`` for a table of answers where the features should be."""
    if isinstance(features, pd.DataFrame) and (name := answers_with(features.columns)):
        raise ValueError(
            f"features have the columns {', '.join(COLUMNS[name][0])}, as {name} do: pass the "
            f"table as {name}={name}, and the features, or None where there are none, first"
        )


def answer_table(name: str, table: Any | None, may_lack: Sequence[str] = ()) -> pd.DataFrame | None:
    """The table that is passed under a name, with its columns; None if none is."""
    return None if table is None else read_table(table, name, *COLUMNS[name], may_lack)
