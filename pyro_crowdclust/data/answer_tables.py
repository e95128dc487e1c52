"""The tables that hold answers: the names under which they are passed, and their columns."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool

from pyro_crowdclust.data.tables import are_blank, as_frame, read_table, where

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
            "pairs, which exchange.CrowdAnswers.of_tables(pairs=..., placements=...).tables() "
            "makes of them"
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
    """The table that is passed under a name, with its columns; None if none is.

    Rows of ``labels`` without a label are left out: these workers were asked, but did not answer.

    Raises
    ------
    ValueError
        As in ``read_table``, and if no row has a label.

    Examples
    --------
    >>> said = {"item": ["ant", "bee"], "worker": ["ann", "ann"], "label": ["insect", None]}
    >>> answer_table("labels", said)
      item worker   label
    0  ant    ann  insect
    """
    if table is None:
        return None
    if name == "labels":
        table, may_lack = as_frame(table, name), ["label"]
        skipped = _without_label(table)
        if skipped.any():
            if skipped.all():
                raise ValueError("every label is missing: fill them in, or leave labels out")
            table = table[~skipped]
    return read_table(table, name, *COLUMNS[name], may_lack)


def warn_about_skipped(given: Any | None, kept: pd.DataFrame | None) -> None:
    """Warn of rows of class labels that ``answer_table`` left out of those that were given."""
    if given is None or kept is None:
        return
    frame = as_frame(given, "labels")
    if len(kept) < len(frame):
        skipped = _without_label(frame)
        warnings.warn(
            f"{where('labels', frame.index, skipped)}: label is missing; rows without a label are "
            "skipped",
            UserWarning,
            stacklevel=4,
        )


def _without_label(frame: pd.DataFrame) -> Bool[np.ndarray, " row"]:
    """Which rows have no label, if there is a column of labels."""
    if [*frame.columns].count("label") != 1:  # an error of ``read_table``
        return np.zeros(len(frame), dtype=bool)
    return frame["label"].isna().to_numpy(bool) | are_blank(frame["label"])
