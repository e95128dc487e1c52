"""Positions of pairs of items that a user gives as two ids, or as two sequences of ids."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.tables import is_one_id


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
    left, right = _as_value(left), _as_value(right)
    is_single = is_one_id(left, data.item_ids)
    if is_single != is_one_id(right, data.item_ids):
        raise ValueError(
            "one of left and right is a single id, the other a sequence of ids: give two ids, or "
            "two sequences of the same length"
        )
    if is_single:
        left, right = [left], [right]
    i, j = (np.asarray(data.item_positions(ids)) for ids in (left, right))
    if len(i) != len(j):
        raise ValueError(
            f"left has {len(i)} ids and right {len(j)}: give two sequences of the same length"
        )
    return i, j, is_single


def _as_value(ids: Any) -> Any:
    """The one value in an array or tensor without axes; anything else as it is."""
    return ids.item() if isinstance(ids, np.ndarray | Tensor) and ids.ndim == 0 else ids
