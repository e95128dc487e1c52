"""Sorted pages that look like copies of others: a sorting that was written down twice."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from pyro_crowdclust.data.placements import Placements
from pyro_crowdclust.data.repeats import look_copied
from pyro_crowdclust.errors import count, show, warn

# Smaller pages are questions about one pair, which may be asked again.
_FEWEST = 3


def first_alike(
    placements: Placements, is_new: Bool[np.ndarray, " page"]
) -> Int[np.ndarray, " page"]:
    """Of every page the first with the same items of the same worker in the same groups.

    Parameters
    ----------
    placements
        All pages.
    is_new
        Those that came after all others.

    Examples
    --------
    >>> import torch
    >>> item, page = torch.tensor([[4, 7, 9, 9, 4, 7], [0, 0, 0, 1, 1, 1]])
    >>> parts = torch.tensor([0, 0, 1, 0, 1, 1]), torch.tensor([0, 0]), torch.tensor([2, 2])
    >>> first_alike(Placements(item, page, *parts), np.array([True, False])).tolist()
    [1, 1]
    """
    item, page = placements.item.numpy(), placements.page.numpy()
    # The names of groups mean nothing beyond their page: a group is known by its first item.
    group = page * placements.most_groups + placements.group.numpy()
    first_item = np.full(placements.num_pages * placements.most_groups, item.max(initial=0))
    np.minimum.at(first_item, group, item)
    rows = np.stack([item, first_item[group]], 1)[np.lexsort((item, page))]
    sizes, workers = placements.page_sizes.tolist(), placements.worker.tolist()
    ends = np.cumsum(sizes).tolist()
    found = np.arange(placements.num_pages)
    seen: dict[tuple[int, bytes], int] = {}
    for one in np.argsort(is_new, kind="stable").tolist():
        key = workers[one], rows[ends[one] - sizes[one] : ends[one]].tobytes()
        found[one] = seen.setdefault(key, one)
    return found


def message_about_copies(
    placements: Placements, page_ids: pd.Index, is_new: Bool[np.ndarray, " page"] | None = None
) -> str | None:
    """The warning about new pages that look like copies of other pages, if any do.

    Parameters
    ----------
    placements, page_ids
        All pages, and their ids.
    is_new
        Those that are asked about; default: all.
    """
    if is_new is None:
        is_new = np.ones(len(page_ids), dtype=bool)
    first = first_alike(placements, is_new)
    is_copy = (first != np.arange(len(first))) & (placements.page_sizes.numpy() >= _FEWEST)
    page = placements.page.numpy()
    if not look_copied((is_copy & is_new)[page[is_new[page]]]):
        return None
    copies = np.flatnonzero(is_copy & is_new)
    return (
        f"placements page {show(page_ids[copies[0]])} ({count(len(copies), 'such page')}): repeats "
        f"page {show(page_ids[first[copies[0]]])} (same items, worker and groups); all are kept, "
        "remove them if they are copies"
    )


def warn_about_copies(placements: Placements, page_ids: pd.Index) -> None:
    """Warn about pages that look like copies."""
    message = message_about_copies(placements, page_ids)
    if message is not None:
        warn(message)
