"""Positions of pairs of items that a user gives as two ids, or as two sequences of ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.tables import in_pandas


def pair_positions(
    data: CrowdData, left: Any, right: Any
) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"], bool]:
    """Positions of both items of every pair, and whether two single ids were given.

    Raises
    ------
    ValueError
        For an id and a sequence, sequences of unequal length, or unknown ids.

    Examples
    --------
    >>> import torch
    >>> data = CrowdData(np.eye(3), item_ids=["ant", "bee", "cat"])
    >>> pair_positions(data, "ant", "cat")
    (array([0]), array([2]), True)
    >>> pair_positions(CrowdData(np.eye(2), item_ids=[b"ant", b"bee"]), b"ant", b"bee")
    (array([0]), array([1]), True)
    >>> pair_positions(CrowdData(np.eye(3)), torch.tensor([0, 1]), torch.tensor([2, 2]))
    (array([0, 1]), array([2, 2]), False)
    """
    left, right = _known_sequence(left), _known_sequence(right)
    is_single = _is_one_id(data, left)
    if is_single != _is_one_id(data, right):
        raise ValueError(
            "one of left and right is a single id, the other a sequence of ids: give two ids, or "
            "two sequences of the same length"
        )
    if is_single:
        left, right = [left], [right]
    if len(left) != len(right):
        raise ValueError(
            f"left has {len(left)} ids and right {len(right)}: give two sequences of the same "
            "length"
        )
    i, j = (np.asarray(data.item_positions(ids)) for ids in (left, right))
    return i, j, is_single


def _known_sequence(ids: Any) -> Any:
    """Tensors as lists, columns of polars and pyarrow as pandas series; other ids as they are."""
    return ids.tolist() if isinstance(ids, Tensor) else in_pandas(ids)


def _is_one_id(data: CrowdData, ids: Any) -> bool:
    """Whether this is an item's id and not a sequence of ids; a tuple may be either."""
    if isinstance(ids, tuple):
        return ids in data.item_ids
    many = Sequence | np.ndarray | pd.Index | pd.Series
    return isinstance(ids, (str, bytes)) or not isinstance(ids, many)
