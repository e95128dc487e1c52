"""Sorted pages: a worker puts the items of a page into groups, one placement per item.

A page of n items is n placements, or n (n - 1) / 2 answers about pairs, many of which follow from
the others by transitivity. Placements and complete, transitive pages of pairs are equivalent, and
each can be made from the other.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from pyro_crowdclust.data.pair_answers import Answers
from pyro_crowdclust.data.tables import codes_and_ids, item_positions, reject
from pyro_crowdclust.errors import show

# Pages share items if an item is on at least so many of them, on average.
_MIN_PAGES = 2.0


@dataclass(frozen=True, eq=False)
class Placements:
    """Items in groups of pages, in positions and codes, page after page.

    Attributes
    ----------
    item
        Position in the data of the item of every placement.
    page
        Code of its page, an index into ``CrowdData.page_ids``; sorted.
    group
        Number of its group on the page: 0, 1, ... without gaps.
    worker
        Code of the worker of every page, an index into ``CrowdData.worker_ids``.
    num_groups
        How many groups every page has. A page without items has one, which is empty, so that what
        models say of "any of its groups" is finite, and 0 in sum.
    """

    item: Int[Tensor, " placement"]
    page: Int[Tensor, " placement"]
    group: Int[Tensor, " placement"]
    worker: Int[Tensor, " page"]
    num_groups: Int[Tensor, " page"]

    def __len__(self) -> int:
        return len(self.item)

    @property
    def num_pages(self) -> int:
        """How many pages were sorted."""
        return len(self.worker)

    @property
    def pages_of_an_item(self) -> float:
        """The average number of pages of an item, of those that are on any page."""
        return len(self) / max(len(self.item.unique()), 1)

    @property
    def share_items(self) -> bool:
        """Whether an item is on two pages or more, on average."""
        return self.pages_of_an_item >= _MIN_PAGES

    @cached_property
    def page_sizes(self) -> Int[Tensor, " page"]:
        """How many items every page has."""
        return torch.bincount(self.page, minlength=self.num_pages)

    @property
    def num_pairs(self) -> int:
        """How many pairs of items share a page, one count for every page that they share."""
        sizes = self.page_sizes
        return int((sizes * (sizes - 1) // 2).sum())

    @cached_property
    def most_groups(self) -> int:
        """The largest number of groups on a page."""
        return int(self.num_groups.max())

    @cached_property
    def group_sizes(self) -> Int[Tensor, "page group"]:
        """How many items lie in every group of every page."""
        cell = self.page * self.most_groups + self.group
        size = self.num_pages * self.most_groups
        return torch.bincount(cell, minlength=size).view(self.num_pages, -1)

    def among(self, place: Int[Tensor, " item"]) -> Placements:
        """The placements of items whose place is not negative, there; all pages stay."""
        item = place[self.item]
        kept = item >= 0
        first = self.num_groups.cumsum(0) - self.num_groups
        group = (first[self.page] + self.group)[kept].unique(return_inverse=True)[1]
        return _sorted_by_page(item[kept], self.page[kept], group, self.worker)

    def of_copies(self, first: Int[Tensor, " item"]) -> Placements:
        """The placements with every item replaced by its first copy; once on a page, the first."""
        item = first[self.item]
        place = torch.stack([self.page, item], 1).numpy()
        is_first = torch.zeros(len(self), dtype=torch.bool)
        is_first[np.unique(place, axis=0, return_index=True)[1]] = True
        return replace(self, item=item).at(is_first)

    def at(self, kept: Bool[Tensor, " placement"]) -> Placements:
        """Some of the placements; all pages stay, with all of their groups."""
        parts = self.item[kept], self.page[kept], self.group[kept]
        return Placements(*parts, self.worker, self.num_groups)

    def of_pages(self, kept: Bool[Tensor, " page"]) -> Placements:
        """The placements of some pages; the other pages stay, without items."""
        return self.at(kept[self.page])


def _sorted_by_page(
    item: Tensor, page: Tensor, group: Tensor, worker_of_page: Tensor
) -> Placements:
    """Placements in order of their pages; group codes must be 0, 1, ... over all pages."""
    order = page.argsort(stable=True)
    item, page, group = item[order], page[order], group[order]
    # Groups are numbered page after page; less the first of its page, each page starts at 0.
    key = torch.stack([page, group], 1).unique(dim=0, return_inverse=True)
    num_groups = torch.bincount(key[0][:, 0], minlength=len(worker_of_page))
    first = num_groups.cumsum(0) - num_groups
    group = key[1] - first[page]
    return Placements(item, page, group, worker_of_page, num_groups.clamp_min(1))


def read_placements(
    table: pd.DataFrame, item_ids: pd.Index, worker: Int[Tensor, " placement"]
) -> tuple[Placements, pd.Index]:
    """The placements of a table ``page, item, worker, group`` in codes, and the page ids.

    Raises
    ------
    ValueError
        For an unknown item, a page of two workers, or an item twice on a page; names the row.
    """
    item = item_positions("placements", table["item"], item_ids)
    page, page_ids = codes_and_ids(table["page"], "placements")
    group, _ = codes_and_ids(table["group"], "placements")
    first_row = torch.full((len(page_ids),), len(page)).scatter_reduce(
        0, page, torch.arange(len(page)), "amin"
    )
    worker_of_page = worker[first_row]
    reject(
        "placements",
        table["page"],
        (worker != worker_of_page[page]).numpy(),
        "a page that another worker sorted, too; a page is one task of one worker, so give the "
        "pages of every worker ids of their own",
    )
    twice = pd.DataFrame({"page": page.numpy(), "item": item.numpy()}).duplicated()
    reject(
        "placements",
        table["item"],
        twice.to_numpy(),
        "which is on this page already; an item has one place on a page, so drop one of the rows",
    )
    return _sorted_by_page(item, page, group, worker_of_page), page_ids


class NotSorted(ValueError):
    """Answers about pairs are not pages that workers sorted into groups; the message says why."""


def sort_pairs(answers: Answers, page_ids: pd.Index) -> Placements:
    """The placements that are equivalent to pages of pairs.

    A page is sorted if one worker answered all pairs of its items and the answers are transitive.
    The groups of a page are what "same" connects. Answers are transitive if all those about pairs
    inside a group are "same", and complete if there is one about each of the pairs of a page.

    Raises
    ------
    NotSorted
        Naming the first page that is not sorted, or if there are no pages.
    """
    if answers.page is None:
        raise NotSorted("the answers have no column 'page'")
    num_pages = len(page_ids)
    ends = torch.stack([answers.left, answers.right])
    base = int(ends.max()) + 1
    members, place = (ends + answers.page * base).unique(return_inverse=True)
    page, item = members // base, members % base
    same = answers.label > 0.5
    edges = place[:, same].numpy()
    graph = coo_array((np.ones(edges.shape[1]), tuple(edges)), shape=(len(members),) * 2)
    group = torch.from_numpy(connected_components(graph, directed=False)[1].astype(np.int64))
    worker = torch.zeros(num_pages, dtype=torch.int64).scatter_(0, answers.page, answers.worker)

    def first_page(bad: Tensor) -> str:
        return f"page {show(page_ids[int(bad.nonzero()[0, 0])])}"

    several = torch.zeros(num_pages, dtype=torch.bool)
    several[answers.page[answers.worker != worker[answers.page]]] = True
    if several.any():
        raise NotSorted(f"{first_page(several)} has answers of several workers")
    broken = torch.zeros(num_pages, dtype=torch.bool)
    broken[answers.page[(group[place[0]] == group[place[1]]) & ~same]] = True
    if broken.any():
        raise NotSorted(f"{first_page(broken)} has answers that are not transitive")
    sizes = torch.bincount(page, minlength=num_pages)
    pair = place.amin(0) * len(members) + place.amax(0)
    distinct = torch.bincount(page[pair.unique() // len(members)], minlength=num_pages)
    incomplete = distinct < sizes * (sizes - 1) // 2
    if incomplete.any():
        raise NotSorted(f"{first_page(incomplete)} lacks answers about some pairs of its items")
    return _sorted_by_page(item, page, group, worker)


def pairs_of(placements: Placements) -> Answers:
    """All pairs of every page as answers: "same" in a group, "different" across groups."""
    sizes = placements.page_sizes
    starts = sizes.cumsum(0) - sizes
    # Every placement is paired with those after it on its page.
    last = (starts + sizes)[placements.page]
    position = torch.arange(len(placements))
    partners = last - position - 1
    left = position.repeat_interleave(partners)
    ends = partners.cumsum(0)
    right = torch.arange(len(left)) - (ends - partners)[left] + left + 1
    label = (placements.group[left] == placements.group[right]).double()
    page = placements.page[left]
    return Answers(
        placements.item[left], placements.item[right], placements.worker[page], label, page
    )


def pages_of_single_pairs(number: int, taken: Collection[Hashable]) -> list[str]:
    """New ids for pages that hold one pair each, none of them in ``taken``.

    Examples
    --------
    >>> pages_of_single_pairs(2, ["pair 1"])
    ['pair 0', 'pair 2']
    """
    names = (f"pair {place}" for place in range(number + len(taken)))
    return [name for name in names if name not in taken][:number]
