"""Tables that speak of items of which a fold has a part, and rows as scikit-learn hands them on."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool
from torch import Tensor

from pyro_crowdclust.data.features import unmasked
from pyro_crowdclust.data.known_labels import table_of_pairs
from pyro_crowdclust.data.tables import are_among, in_pandas, numbers_of, show, to_index


def in_memory(X: Any) -> Any:
    """Tensors as arrays, and masked cells as missing, whose mask scikit-learn drops."""
    if isinstance(X, Tensor):
        return numbers_of(X, "X")
    if isinstance(X, np.ma.MaskedArray):
        return unmasked(X)
    return X


def warn_if_cut(table: Any, ids: pd.Index) -> None:
    """Warn of a table of as many rows as items, which a grid search takes for one of them.

    A data frame that was cut lacks rows, which its index shows unless only the last ones are gone.
    """
    if isinstance(table, Mapping) or not hasattr(table, "__len__"):
        return
    is_whole = isinstance(table, pd.DataFrame) and table.index.equals(pd.RangeIndex(len(table)))
    if len(table) == len(ids) and not is_whole:
        warnings.warn(
            f"there are {len(table)} items and as many rows in a table about them: in a grid "
            "search or a cross-validation scikit-learn cuts such a table as it cuts the items, and "
            "most of it is lost; pass a dictionary of its columns, of a data frame "
            "table.to_dict('list')",
            stacklevel=3,
        )


def check_rows(rows: pd.Index, known: Any, *tables: Any | None) -> None:
    """Refuse what is about other items than these rows, which have no ids.

    X is then a part of a larger set, and its rows have other numbers than there.
    """
    named = [*known.keys()] if isinstance(known, pd.Series | Mapping) else []
    for table in tables:
        frame = pd.DataFrame(in_pandas(table_of_pairs(table)))
        ends = frame.loc[:, frame.columns.isin(["left", "right", "item"])]
        named += [*ends.to_numpy(dtype=object).ravel()]
    items = pd.Series(named, dtype=object).dropna()
    others = items[~are_among(items, rows)]
    if len(others):
        raise ValueError(
            f"an answer, link or label is about item {show(others.iloc[0])}, but X has {len(rows)} "
            "rows without ids: if they are a part of all items, as in cross-validation, rows have "
            "other numbers here; pass the ids of all items as item_ids=, or X as a data frame"
        )


def among(table: Any | None, ids: pd.Index) -> pd.DataFrame | None:
    """The rows of a table that are about these items alone; None if there are none.

    A table that names items by their text, where ids are numbers, stays whole, for ``CrowdData``
    to refuse.
    """
    if table is None:
        return None
    frame = pd.DataFrame(in_pandas(table_of_pairs(table)))
    kept = np.ones(len(frame), dtype=bool)
    # What is missing of ``left, right`` or ``item`` is told by ``CrowdData``.
    for column in {"left", "right", "item"} & {*frame.columns}:
        found = _are_items(frame[column], ids)
        if not found.any() and _are_texts_of(frame[column], ids):
            return frame
        kept &= found
    return frame[kept] if kept.any() else None


def labels_among(known: Any, ids: pd.Index) -> Any:
    """The labels of these items alone, where it is said which items they are of.

    A series of one label per row whose index names none of the items is in the order of the rows:
    it stays whole, for ``CrowdData`` to refuse. So do labels of items that are named by their text.
    """
    is_series = isinstance(known, pd.Series)
    if isinstance(known, Mapping):
        known = pd.Series(known, dtype=object)
    elif not is_series:
        return known
    named, is_full = _are_items(known.index, ids), is_series and len(known) == len(ids)
    if not named.any() and (is_full or _are_texts_of(known.index, ids)):
        return known
    if is_full and not named.all():
        warnings.warn(
            f"there are {len(ids)} items and as many labels in known, some of other items: in a "
            "grid search or a cross-validation scikit-learn cuts such labels by their order, as it "
            "cuts the items, and some are lost; pass known.reindex(X.index), in the order of X",
            stacklevel=3,
        )
    return known[named]


def _are_items(named: Any, ids: pd.Index) -> Bool[np.ndarray, " row"]:
    """Which ids are among these, as ``CrowdData`` finds them: dates by their text, too."""
    return ids.get_indexer(to_index(named, "ids of items")) >= 0


def _are_texts_of(named: Any, ids: pd.Index) -> bool:
    """Whether some are these ids as text."""
    return bool(to_index(named, "ids of items").map(str).isin(ids.map(str)).any())
