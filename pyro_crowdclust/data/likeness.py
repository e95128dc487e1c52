"""How similar the two items of a pair are: numbers of pairs, which may never have been asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust.data.tables import (
    as_frame,
    item_positions,
    read_table,
    reject,
    reject_self_pairs,
    where,
)
from pyro_crowdclust.errors import show

_ENDS = ["left", "right"]


@dataclass(frozen=True, eq=False)
class Likeness:
    """Numbers that grow or fall with the similarity of the two items of a pair.

    Attributes
    ----------
    left, right
        Positions of the two items, the smaller first; every pair once.
    values
        The numbers, a column for each.
    """

    left: Int[Tensor, " pair"]
    right: Int[Tensor, " pair"]
    values: Float[Tensor, "pair number"]

    @property
    def num_pairs(self) -> int:
        """Number of pairs."""
        return len(self.left)

    @property
    def num_numbers(self) -> int:
        """How many numbers there are of every pair."""
        return self.values.shape[1]

    @property
    def items(self) -> Int[Tensor, "pair 2"]:
        """Positions of the two items of each pair."""
        return torch.stack([self.left, self.right], 1)

    def among(self, place: Int[Tensor, " item"]) -> Likeness | None:
        """The pairs of items whose places are not negative, there; None if none is left."""
        left, right = place[self.left], place[self.right]
        kept: Bool[Tensor, " pair"] = (left >= 0) & (right >= 0)
        if not bool(kept.any()):
            return None
        ends = torch.stack([left[kept], right[kept]], 1).sort(dim=1).values
        return Likeness(ends[:, 0], ends[:, 1], self.values[kept])


def read_likeness(table: Any) -> pd.DataFrame:
    """``left``, ``right``, and all other columns, which must hold finite numbers.

    Raises
    ------
    ValueError
        If there is no other column, or another column does not hold finite numbers.
    """
    whole = as_frame(table, "likeness")
    names = [name for name in whole.columns if name not in _ENDS]
    found = read_table(whole, "likeness", _ENDS, names, may_lack=names)
    if not names:
        raise ValueError(
            "likeness has no column but left and right: add numbers that grow or fall with the "
            "likeness of the two, such as a similarity of their texts"
        )
    for name in names:
        if not pd.api.types.is_numeric_dtype(found[name]):
            raise ValueError(
                f"likeness column {show(name)} holds {found[name].dtype}, but must hold numbers: "
                "convert it, or drop the column"
            )
    values = found[names].to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~np.isfinite(values)
    if bad.any():
        name = names[int(bad.any(0).argmax())]
        reason = "which is not a finite number: fill it in, or drop the pair"
        reject("likeness", found[name], bad[:, names.index(name)], reason)
    return found


def likeness_of(table: pd.DataFrame, item_ids: pd.Index) -> tuple[Likeness, pd.Index]:
    """The pairs of a table in positions, and the names of its numbers.

    Raises
    ------
    ValueError
        For an unknown item, an item paired with itself, and a pair that is there twice.
    """
    left, right = (item_positions("likeness", table[end], item_ids) for end in _ENDS)
    reject_self_pairs("likeness", table["left"], left == right)
    ends = torch.stack([left, right], 1).sort(dim=1).values
    again = pd.DataFrame(ends.numpy()).duplicated().to_numpy()
    if again.any():
        row = int(again.argmax())
        pair = ", ".join(show(table[end].iloc[row]) for end in _ENDS)
        raise ValueError(
            f"{where('likeness', table.index, again)} repeats the pair ({pair}): give every pair "
            "once"
        )
    names = table.columns.drop(_ENDS)
    values = torch.tensor(table[names].to_numpy(dtype=np.float64))
    return Likeness(ends[:, 0], ends[:, 1], values), names
