"""What an expert knows about some of the items: known labels, must-links and cannot-links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import scipy  # loads its subpackages when they are first used
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pyro_crowdclust.data.alike import check_alike
from pyro_crowdclust.data.tables import (
    are_blank,
    codes_and_ids,
    in_pandas,
    item_positions,
    read_table,
    reject,
    reject_self_pairs,
    to_index,
    unknown,
    where,
)
from pyro_crowdclust.data.tensors import numbers_of
from pyro_crowdclust.errors import count, show, warn


@dataclass(frozen=True, eq=False)
class Links:
    """Pairs of items that must, or cannot, be in one cluster; a row per link.

    Attributes
    ----------
    left, right
        Positions of the two items in the data (in a ``Batch``: rows of the batch).
    must
        True for a must-link, False for a cannot-link.
    """

    left: Int[Tensor, " link"]
    right: Int[Tensor, " link"]
    must: Bool[Tensor, " link"]

    @property
    def num_links(self) -> int:
        """Number of links."""
        return len(self.left)

    def among(self, place: Int[Tensor, " item"]) -> Links | None:
        """The links between items whose place is not negative, there; None if none is left."""
        left, right = place[self.left], place[self.right]
        return self._moved(left, right, (left >= 0) & (right >= 0))

    def of_copies(self, first: Int[Tensor, " item"]) -> Links | None:
        """The links with every item replaced by its first copy; None if none is left.

        Links between copies of the same item are left out.
        """
        left, right = first[self.left], first[self.right]
        return self._moved(left, right, left != right)

    def _moved(
        self, left: Int[Tensor, " link"], right: Int[Tensor, " link"], kept: Bool[Tensor, " link"]
    ) -> Links | None:
        """Some of the links, with other ends; None if none is left."""
        return Links(left[kept], right[kept], self.must[kept]) if bool(kept.any()) else None


@dataclass(frozen=True, eq=False)
class Neighbors:
    """The known labels and links of a batch, and how they stand for those of all data.

    Attributes
    ----------
    label_counts
        How many items of the data carry each label.
    linked
        Whether an item of the batch has a link, perhaps to an item outside.
    links
        The links among the items of the batch, as rows of it; None where the data have none.
    pair_weight
        Inverse of the rate at which a pair of items with neighbours is drawn.
    message_scale
        ``pair_weight`` divided by the weight of an item. The messages to an item from the batch,
        times this, estimate its messages from all data.
    complete
        Whether the batch holds every item of the data with a label or a link.
    """

    label_counts: Int[Tensor, " label"]
    linked: Bool[Tensor, " item"]
    links: Links | None
    pair_weight: float = 1.0
    message_scale: float = 1.0
    complete: bool = True

    def to(self, device: torch.device | str | None) -> Neighbors:
        """The same on another device; the object itself if it is there already."""
        if device is None or self.linked.device == torch.device(device):
            return self
        links = self.links
        if links is not None:
            links = Links(links.left.to(device), links.right.to(device), links.must.to(device))
        return replace(
            self,
            label_counts=self.label_counts.to(device),
            linked=self.linked.to(device),
            links=links,
        )


def read_known(known: Any, item_ids: pd.Index) -> tuple[Int[Tensor, " item"], pd.Index]:
    """Codes of known labels, -1 where unknown, and the label of each code.

    Parameters
    ----------
    known
        One label per item, in the order of the items; None, NaN and -1 mean unknown. The index of
        a series and the keys of a mapping are always read as item ids; items without an entry are
        unknown.
    item_ids
        Ids of the items.

    Raises
    ------
    ValueError
        If the number of labels is not that of the items, an index has repeated or unknown ids, a
        label is a negative number, or labels are neither integers nor names.

    Examples
    --------
    >>> codes, labels = read_known(["cat", None, "ant", "cat"], pd.RangeIndex(4))
    >>> codes.tolist(), list(labels)
    ([1, -1, 0, 1], ['ant', 'cat'])
    """
    if isinstance(known, Tensor):
        known = numbers_of(known, "known")
    if hasattr(known, "to_pandas"):  # a column of polars or pyarrow, which has no index
        known = in_pandas(known)
        known = known if isinstance(known, pd.DataFrame) else known.to_numpy()
    if isinstance(known, pd.DataFrame):
        raise ValueError(
            f"known is a table with the columns {[*known.columns]}, but must be labels alone: pass "
            "one per item, or a series whose index holds item ids, "
            "table.set_index('item')['label']"
        )
    if isinstance(known, Mapping):
        known = pd.Series(known, dtype=object)
    column = _aligned(known, item_ids) if isinstance(known, pd.Series) else _series(known)
    if len(column) != len(item_ids):
        raise ValueError(
            f"known has {count(len(column), 'label')} for {count(len(item_ids), 'item')}: pass one "
            "per item (None, NaN or -1 where unknown), or a series whose index holds item ids"
        )
    given = column[_is_given(column)].rename("label")
    codes = torch.full((len(item_ids),), -1, dtype=torch.int64)
    if not len(given):
        return codes, pd.Index([], dtype=object)
    given_codes, labels = codes_and_ids(_integers(given), "known")
    check_alike(labels, "known labels")
    codes[torch.from_numpy(given.index.to_numpy(np.int64).copy())] = given_codes
    return codes, labels


def _series(known: Any) -> pd.Series:
    shape = getattr(known, "shape", (0,))
    if len(shape) != 1:
        raise ValueError(
            f"known has shape {tuple(shape)}: pass a flat array with one label per item (the "
            "argmax of one-hot rows)"
        )
    try:
        # With None among the integers of a list pandas would read floats, and lose digits.
        return pd.Series(known, dtype=getattr(known, "dtype", object))
    except (TypeError, ValueError) as error:
        raise ValueError(f"known is not a list of labels ({error}): pass one per item") from error


def _aligned(column: pd.Series, item_ids: pd.Index) -> pd.Series:
    """The labels in the order of the items."""
    if column.index.equals(item_ids):
        return column.reset_index(drop=True)
    repeated = column.index.duplicated()
    if repeated.any():
        row = int(repeated.argmax())
        raise ValueError(
            f"known labels item {show(column.index[row])} more than once: give one label per item"
        )
    positions = item_ids.get_indexer(to_index(column.index, "known"))
    if (positions < 0).any():
        row = int((positions < 0).argmax())
        raise ValueError(
            f"known row {row} has the item id {show(column.index[row])}, "
            f"{unknown(item_ids, column.index[row])} (the index of a series holds item ids: for "
            "labels in the order of the items pass known.to_numpy())"
        )
    values = np.full(len(item_ids), None, dtype=object)
    values[positions] = column.to_numpy(dtype=object)
    return pd.Series(values)


def _is_given(column: pd.Series) -> np.ndarray:
    """Which labels are known: neither missing nor blank nor -1."""
    column = column.reset_index(drop=True)
    missing = column.isna().to_numpy(dtype=bool) | are_blank(column)
    is_minus_one = [not isinstance(value, str) and value == -1 for value in column[~missing]]
    given = ~missing
    given[given] = ~np.array(is_minus_one, dtype=bool)
    return given


def _integers(given: pd.Series) -> pd.Series:
    """Labels with whole numbers as integers, so that 1.0 beside NaN is the label 1."""
    numeric = given.map(lambda value: isinstance(value, (float, np.floating))).to_numpy(bool)
    if numeric.any():
        parts = given[numeric].astype(np.float64)
        broken = np.zeros(len(given), dtype=bool)
        broken[numeric] = parts % 1 != 0
        reject("known", given, broken, "not a whole number; use integers or names")
        given = given.astype(object)
        given[numeric] = [int(value) for value in parts]
    negative = given.map(lambda value: not isinstance(value, str) and _below_zero(value))
    reject("known", given, negative, "negative; only -1 means unknown")
    if len(set(map(type, given))) == 1:
        given = given.infer_objects()
    return given


def _below_zero(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and bool(value < 0)


def read_links(must_link: Any, cannot_link: Any, item_ids: pd.Index) -> Links | None:
    """Must-links and cannot-links in positions, or None where there are none.

    Raises
    ------
    ValueError
        Naming the row: an item that is unknown or paired with itself, and what ``read_table``
        refuses.
    """
    parts = []
    for name, table in (("must_link", must_link), ("cannot_link", cannot_link)):
        if table is None:
            continue
        frame = read_table(table_of_pairs(table), name, ["left", "right"])
        left, right = (item_positions(name, frame[end], item_ids) for end in ("left", "right"))
        reject_self_pairs(name, frame["left"], left == right)
        repeated = pd.DataFrame(torch.stack([left, right], 1).sort(1).values.numpy())
        if repeated.duplicated().any():
            warn(
                f"{where(name, frame.index, repeated.duplicated().to_numpy())}: repeats an earlier "
                "link; all are kept and count, remove them if they are copies"
            )
        parts.append((left, right, torch.full((len(left),), name == "must_link")))
    if not parts:
        return None
    return Links(*(torch.cat(columns) for columns in zip(*parts, strict=True)))


def table_of_pairs(table: Any) -> Any:
    """A list of pairs, or an array of two columns, as a table; anything else as it is."""
    rows = table.tolist() if isinstance(table, (np.ndarray, Tensor)) else table
    if not isinstance(rows, (list, tuple)):
        return table
    is_pairs = all(isinstance(row, (list, tuple)) and len(row) == 2 for row in rows)
    return {"left": [a for a, _ in rows], "right": [b for _, b in rows]} if is_pairs else table


def count_contradictions(links: Links | None, known: Int[Tensor, " item"] | None) -> int:
    """The number of contradictions among links and known labels.

    A cannot-link is one if a chain of must-links and common labels joins its ends. Items that
    must-links join count as many as they have different labels, less one.

    Examples
    --------
    >>> left, right = torch.tensor([0, 1, 0]), torch.tensor([1, 2, 2])
    >>> count_contradictions(Links(left, right, torch.tensor([True, True, False])), None)
    1
    """
    if links is None:
        return 0
    num_items = int(torch.cat([links.left, links.right]).max()) + 1
    known = torch.full((num_items,), -1) if known is None else known
    num_items = len(known)
    must = links.left[links.must], links.right[links.must]
    joined = joined_items(*must, num_items)
    labelled = (known >= 0).nonzero().squeeze(1)
    groups = torch.stack([joined[labelled], known[labelled]]).unique(dim=1)[0]
    contradictions = len(groups) - len(groups.unique())
    # One link from every labelled item to the first with its label joins all of them.
    label_of, first = np.unique(known[labelled].numpy(), return_index=True)
    anchor = labelled[torch.from_numpy(first)[np.searchsorted(label_of, known[labelled].numpy())]]
    ends = torch.cat([must[0], labelled]), torch.cat([must[1], anchor])
    joined = joined_items(*ends, num_items)
    cannot = ~links.must
    together = joined[links.left[cannot]] == joined[links.right[cannot]]
    return contradictions + int(together.sum())


def joined_items(left: Tensor, right: Tensor, num_items: int) -> Int[Tensor, " item"]:
    """The connected component of every item, in the graph of these pairs.

    Examples
    --------
    >>> joined_items(torch.tensor([0, 1]), torch.tensor([1, 3]), 4).tolist()
    [0, 0, 1, 0]
    """
    edges = scipy.sparse.coo_array(
        (np.ones(len(left)), (left.numpy(), right.numpy())), (num_items, num_items)
    )
    return torch.from_numpy(
        scipy.sparse.csgraph.connected_components(edges, directed=False)[1]
    ).long()


def warn_about_contradictions(contradictions: int) -> None:
    """Warn that not all links and labels can be true."""
    if contradictions:
        warn(
            f"{count(contradictions, 'contradiction')} among must-links, cannot-links and known "
            "labels: not all of them can be true. All are kept as evidence; the posterior weighs "
            "them (CrowdData.num_contradictions)"
        )
