"""Ids of items and workers, as the user gave them or as the tables name them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.data.alike import check_alike, refuse_two_types, warn_of_alike_texts
from pyro_crowdclust.data.tables import codes_and_ids, to_index
from pyro_crowdclust.errors import count, did_you_mean, listed, show, warn

# How often items usually occur where a single time is rare; and the share of this number up to
# which an item occurs only a few times.
_OFTEN, _FEW = 4, 0.6
# Among so many ids the most similar one is looked for.
_MAX_COMPARED = 10_000


def read_item_ids(item_ids: Any, num_rows: int | None) -> pd.Index:
    """The items' ids: one for every row of features, no two the same."""
    index = to_index(item_ids, "item_ids")
    if len(index) == 0:
        raise ValueError("item_ids are empty; pass at least one item")
    if num_rows is not None and len(index) != num_rows:
        raise ValueError(f"{len(index)} item_ids for {num_rows} rows of features; pass one per row")
    if isinstance(index, pd.RangeIndex):
        return index
    checks = (index.isna(), "which is missing"), (index.duplicated(), "which is there already")
    for bad, reason in ((np.asarray(rows), why) for rows, why in checks):
        if bad.any():
            row, rows = int(bad.argmax()), count(int(bad.sum()), "such row")
            raise ValueError(
                f"item_ids row {row} is {show(index[row])}, {reason} ({rows}); give every item "
                "an id of its own"
            )
    refuse_two_types(index, "item ids")
    return index.copy(deep=True)  # older pandas makes an index in the memory of the user's array


def ids_in_tables(
    pairs: pd.DataFrame | None,
    labels: pd.DataFrame | None,
    placements: pd.DataFrame | None,
    likeness: pd.DataFrame | None = None,
) -> pd.Index:
    """Ids of the items that the tables name."""
    of_pairs = [table for table in (pairs, likeness) if table is not None]
    columns = [table[end] for table in of_pairs for end in ("left", "right")]
    columns += [table["item"] for table in (labels, placements) if table is not None]
    if not columns:
        raise ValueError(
            "there are no items: pass features, or answers, which are pairs or placements; "
            "CrowdData also takes labels or item_ids"
        )
    name = "placements" if placements is not None else "labels" if pairs is None else "pairs"
    codes, ids = codes_and_ids(_one_column(columns).rename("left, right or item"), name)
    warn_of_alike_texts(ids, "items")
    # Pages name an item in many pairs at once; likeness names records that nobody was asked about.
    if likeness is None and (pairs is None or "page" not in pairs):
        _warn_of_rare(np.bincount(codes.numpy()), ids)
    return ids


def _warn_of_rare(times: Int[np.ndarray, " item"], ids: pd.Index) -> None:
    """Warn of items that occur once, where all others occur about as often as is usual.

    If some occur a few times, as where items are drawn at random, once is nothing unusual.
    """
    usual, once = float(np.median(times)), times == 1
    if usual < _OFTEN or not once.any() or (times[~once] <= _FEW * usual).any():
        return
    some = ids[once]
    warn(
        f"{count(len(some), 'item')} ({listed(some)}) {'occurs' if len(some) == 1 else 'occur'} "
        f"once in the answers, and the others about {usual:.0f} times: correct ids that are "
        f"mistyped{did_you_mean(some[0], ids[~once][:_MAX_COMPARED])}"
    )


def read_workers(
    *tables: pd.DataFrame | None,
) -> tuple[list[Int[Tensor, " answer"]], pd.Index]:
    """The workers' codes in each table (none for an absent one) and their ids."""
    lengths = [0 if table is None else len(table) for table in tables]
    columns = [table["worker"] for table in tables if table is not None]
    if not columns:
        return [torch.empty(0, dtype=torch.int64) for _ in tables], pd.Index([], dtype=object)
    names = ("pairs", "labels", "placements")
    name = next(name for name, table in zip(names, tables, strict=True) if table is not None)
    codes, ids = codes_and_ids(_one_column(columns), name)
    check_alike(ids, "workers")
    return list(codes.split(lengths)), ids


def _one_column(columns: list[pd.Series]) -> pd.Series:
    return columns[0] if len(columns) == 1 else pd.concat(columns)
