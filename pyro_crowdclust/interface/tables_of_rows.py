"""Tables about items in cross-validation, where scikit-learn passes only some of the items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool
from scipy.sparse import issparse
from torch import Tensor

from pyro_crowdclust.data.features import dense, unmasked
from pyro_crowdclust.data.known_labels import table_of_pairs
from pyro_crowdclust.data.tables import are_among, in_pandas, to_index
from pyro_crowdclust.data.tensors import numbers_of
from pyro_crowdclust.errors import show, warn


def in_memory(X: Any) -> Any:
    """Tensors and sparse tables as arrays; masked cells as NaN, as scikit-learn drops the mask."""
    if isinstance(X, Tensor):
        return numbers_of(X, "X")
    if isinstance(X, np.ma.MaskedArray):
        return unmasked(X)
    return dense(X) if issparse(X) else X


def warn_if_cut(table: Any, ids: pd.Index) -> None:
    """Warn about a table with as many rows as items: a grid search splits it like the items.

    A data frame that was cut lacks rows, which its index shows unless only the last ones are gone.
    """
    if isinstance(table, Mapping) or not hasattr(table, "__len__"):
        return
    is_whole = isinstance(table, pd.DataFrame) and table.index.equals(pd.RangeIndex(len(table)))
    if len(table) == len(ids) and not is_whole:
        warn(
            f"there are {len(table)} items and as many rows in a table about them: in a grid "
            "search or a cross-validation, scikit-learn splits such a table like the items, and "
            "most of it is lost; pass a dictionary of its columns, which is table.to_dict('list') "
            "of a data frame"
        )


def check_rows(rows: pd.Index, known: Any, *tables: Any | None) -> None:
    """Refuse answers, links and labels about items that are not among these rows without ids.

    X is then a part of a larger set of items, in which its rows have other numbers.
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
            "rows without ids. If these are only some of the items, as in cross-validation, they "
            "are numbered anew; pass the ids of all items as item_ids=, or X as a data frame"
        )


def among(table: Any | None, ids: pd.Index) -> pd.DataFrame | None:
    """The rows of a table that are about these items only; None if there is no such row.

    A table that names items by text where the ids are numbers is returned as a whole, so that
    ``CrowdData`` refuses it.
    """
    if table is None:
        return None
    frame = pd.DataFrame(in_pandas(table_of_pairs(table)))
    kept = np.ones(len(frame), dtype=bool)
    # ``CrowdData`` raises an error if ``left``, ``right`` or ``item`` is missing.
    for column in {"left", "right", "item"} & {*frame.columns}:
        found = _are_items(frame[column], ids)
        if not found.any() and _are_texts_of(frame[column], ids):
            return frame
        kept &= found
    return frame[kept] if kept.any() else None


def labels_among(known: Any, ids: pd.Index) -> Any:
    """The labels of these items only, if the labels are given by item and not in their order.

    A series with a label for every row whose index has none of the ids is returned as a whole, so
    that ``CrowdData`` refuses it; so are labels of items that are named by text.
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
        warn(
            f"there are {len(ids)} items and as many labels in known, some of other items: in a "
            "grid search or a cross-validation, scikit-learn splits such labels by their order, "
            "like the items, and some are lost; pass known.reindex(X.index), in the order of X"
        )
    return known[named]


def _are_items(named: Any, ids: pd.Index) -> Bool[np.ndarray, " row"]:
    """Which of the named items are among these ids; as in ``CrowdData``, dates also as text."""
    return ids.get_indexer(to_index(named, "ids of items")) >= 0


def _are_texts_of(named: Any, ids: pd.Index) -> bool:
    """Whether some of the names are the text of an id."""
    return bool(to_index(named, "ids of items").map(str).isin(ids.map(str)).any())
