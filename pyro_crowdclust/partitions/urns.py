"""Sorted pages given a partition: on every page, groups are drawn from an urn for each cluster.

    phi_pk ~ Dir(c / G_p, ..., c / G_p)                shares of the groups of page p in cluster k
    g_i | z_i = k ~ Cat(phi_pk)                        where item i of page p is put

With the shares summed out, the groups of a cluster's items follow a Polya urn,

    p(g | z, c) = prod_pk Gamma(c) / Gamma(c + n_pk)
                  prod_g Gamma(c / G_p + n_pkg) / Gamma(c / G_p)
    p(g_i = g | z_i = k, rest) = (n_pkg + c / G_p) / (n_pk + c)

with n the numbers of other items. The spread c says how widely the items of a cluster are scattered
over the groups: near 0 they all share one group, which other clusters may share, and if c is
infinite they lie anywhere. Names of groups mean nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.data.placements import Placements
from pyro_crowdclust.partitions.asked_pairs import AskedPairs
from pyro_crowdclust.partitions.protocols import PartitionPrior
from pyro_crowdclust.partitions.sweeps import visited

if TYPE_CHECKING:
    from pyro_crowdclust.partitions.gibbs import Chain, PartitionWeights

# A finite spread that is as good as infinite, for any number of items.
ANYWHERE = 1e12


@dataclass(frozen=True, eq=False)
class PagedItems:
    """Which items lie where on which pages.

    Attributes
    ----------
    num_items
        N, on a page or not.
    pages
        Placements of items, page after page.
    """

    num_items: int
    pages: Placements

    @property
    def item(self) -> Int[Tensor, " placement"]:
        """Position of the item of every placement."""
        return self.pages.item

    @cached_property
    def connections(self) -> AskedPairs:
        """Pairs of successive items of every page, which connect all items of a page.

        Two pages with an item in common are one part. There is no evidence about items that are
        alone on their pages.
        """
        page = self.pages.page
        on_one_page = page[1:] == page[:-1]
        ends = torch.stack([self.item[:-1][on_one_page], self.item[1:][on_one_page]], 1)
        return AskedPairs.of(ends, self.num_items)

    def with_groups(self, group: Int[Tensor, " placement"]) -> PagedItems:
        """The same pages, whose items lie in other groups."""
        return replace(self, pages=replace(self.pages, group=group))

    @cached_property
    def by_item(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Placements sorted by item: where those of every item begin, their pages and groups."""
        order = self.item.argsort(stable=True)
        first = torch.searchsorted(self.item[order], torch.arange(self.num_items + 1))
        return first.numpy(), self.pages.page[order].numpy(), self.pages.group[order].numpy()

    @cached_property
    def by_page(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Placements sorted by page: where those of every page begin, their items and groups."""
        pages = self.pages
        first = torch.searchsorted(pages.page.contiguous(), torch.arange(pages.num_pages + 1))
        return first.numpy(), pages.item.numpy(), pages.group.numpy()

    def counts(self, labels: Int[Tensor, "chain item"]) -> UrnCounts:
        """How many items of every cluster are on every page and in each of its groups.

        Pages of different chains have different numbers, chain after chain.
        """
        pages, number = self.pages, int(labels.max()) + 1
        chain = torch.arange(len(labels)).unsqueeze(1)
        code = (chain * pages.num_pages + pages.page) * number + labels[:, self.item]
        urn, urn_of = code.unique(return_inverse=True)
        cell, held = (urn_of * pages.most_groups + pages.group).unique(return_counts=True)
        return UrnCounts(
            urn // number,
            torch.bincount(urn_of.flatten(), minlength=len(urn)).double(),
            cell // pages.most_groups,
            cell % pages.most_groups,
            held.double(),
        )

    def log_groups(
        self, labels: Int[Tensor, "chain item"], spreads: tuple[float, ...]
    ) -> Float[Tensor, "chain page spread"]:
        """``log p(g | z, c)`` of every page at every spread."""
        found, pages = self.counts(labels), self.pages
        num_groups = pages.num_groups.double().repeat(len(labels))
        page_of_cell = found.page[found.urn]
        finite = [one for one in spreads if math.isfinite(one)]
        spread = torch.tensor(finite, dtype=torch.float64)
        # There are few different numbers, so that tables save most of the gamma functions.
        numbers = torch.arange(int(pages.page_sizes.max()) + 1, dtype=torch.float64).unsqueeze(1)
        groups, place = num_groups.unique(return_inverse=True)
        each = (spread / groups.unsqueeze(1)).unsqueeze(1)
        of_held = torch.lgamma(numbers + each) - torch.lgamma(each)
        of_cell = of_held[place[page_of_cell], found.held.long()]
        of_size = torch.lgamma(spread) - torch.lgamma(numbers + spread)
        of_urn = of_size[found.size.long()]
        log_page = num_groups.new_zeros(len(num_groups), len(spread))
        log_page = log_page.index_add(0, page_of_cell, of_cell).index_add(0, found.page, of_urn)
        # Infinite spread: every group is equally likely.
        anywhere = torch.zeros_like(num_groups).index_add(0, found.page, -found.size)
        columns = iter(log_page.unbind(1))
        at = [next(columns) if math.isfinite(c) else anywhere * num_groups.log() for c in spreads]
        return torch.stack(at, 1).unflatten(0, (len(labels), -1))

    def log_workers(
        self, labels: Int[Tensor, "chain item"], spreads: tuple[float, ...], num_workers: int
    ) -> Float[Tensor, "chain worker spread"]:
        """``log p(g | z, c)`` of all pages of every worker, at every spread."""
        of_pages = self.log_groups(labels, spreads)
        zeros = of_pages.new_zeros(len(labels), num_workers, len(spreads))
        return zeros.index_add(1, self.pages.worker, of_pages)

    def pair_counts(
        self, labels: Int[Tensor, "chain item"], num_workers: int
    ) -> Float[Tensor, "chain worker relation outcome"]:
        """Wrong and right pairs on the pages of every worker, as if each item was one answer.

        Rows are pairs of one cluster and of different ones, columns are wrong and right pairs:
        their shares, times the effective number of answers on a page. This is smaller than the
        number of pairs, since an item out of place spoils many at once, on both sides of a cluster.
        For pairs of one cluster it is half the number of items, not counting the first of every
        cluster; for pairs of different clusters the number of items, not counting the first of the
        page.
        """
        found, pages = self.counts(labels), self.pages

        def per_page(page: Tensor, values: Tensor) -> Float[Tensor, "chain page"]:
            total = values.new_zeros(len(labels) * pages.num_pages)
            return total.index_add(0, page, values).view(len(labels), -1)

        size = pages.page_sizes.double()
        in_group = _pairs(pages.group_sizes.double()).sum(1)
        same = per_page(found.page, _pairs(found.size))
        together = per_page(found.page[found.urn], _pairs(found.held))
        company = per_page(found.page, (found.size - 1) / 2)
        different = _pairs(size) - same
        of_pages = torch.stack(
            [same - together, together, in_group - together, different - in_group + together], 2
        )
        units = torch.stack([company, (size - 1) * (different > 0)], 2)
        of_workers, units = (
            part.new_zeros(len(labels), num_workers, part.shape[2]).index_add(1, pages.worker, part)
            for part in (of_pages, units)
        )
        pairs = of_workers.unflatten(2, (2, 2))
        return units.unsqueeze(3) * pairs / pairs.sum(3, keepdim=True).clamp_min(1)

    def faults(self, labels: Int[Tensor, "chain item"]) -> Float[Tensor, "chain page fault"]:
        """For every page, the items out of place, and the pairs of clusters that share a group.

        The place of a cluster is the group with most of its items, or the first of several such.
        """
        found, pages = self.counts(labels), self.pages
        most = found.held.new_zeros(len(found.page)).scatter_reduce(
            0, found.urn, found.held, "amax"
        )
        places = (found.held == most[found.urn]).nonzero().squeeze(1)
        urn, first = np.unique(found.urn[places].numpy(), return_index=True)
        home = torch.empty_like(found.page)
        home[torch.from_numpy(urn)] = found.group[places[torch.from_numpy(first)]]
        shape = len(labels) * pages.num_pages
        held = torch.bincount(
            found.page * pages.most_groups + home, minlength=shape * pages.most_groups
        )
        lumped = _pairs(held.double()).view(shape, -1).sum(1)
        misplaced = torch.zeros(shape).double().index_add(0, found.page, found.size - most)
        return torch.stack([misplaced, lumped], 1).unflatten(0, (len(labels), -1))


def _pairs(number: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    return number * (number - 1) / 2


@dataclass(frozen=True, eq=False)
class UrnCounts:
    """Numbers of items of clusters on pages. An urn is a cluster on a page.

    Attributes
    ----------
    page, size
        Page and number of items of every urn.
    urn, group, held
        For every group in which an urn has items: the urn, the group, and how many items.
    """

    page: Int[Tensor, " urn"]
    size: Float[Tensor, " urn"]
    urn: Int[Tensor, " cell"]
    group: Int[Tensor, " cell"]
    held: Float[Tensor, " cell"]


def sweep_pages(
    labels: Int[Tensor, "chain item"],
    paged: PagedItems,
    spreads: Float[Tensor, "chain page"],
    prior: PartitionPrior,
) -> Int[Tensor, "chain item"]:
    """Draw the cluster of every item given all other items, in random order, in every chain.

        p(z_i = k | rest) propto exp( log_join(n_k) )
                                 prod_p (n_pkg + c / G_p) / (n_pk + c)

    over the pages p of the item, in group g. For clusters without items on a page the factor is
    ``1 / G_p``, so that they need no loop (as in ``sweep``), and the cost is the number of items on
    the item's pages.

    Parameters
    ----------
    labels
        Cluster of every item, any numbers.
    paged
        The pages.
    spreads
        c of every page, in every chain.
    prior
        Prior of the partition, whose ``joins_strangers`` must be true.

    Returns
    -------
    New labels, numbered without gaps.
    """
    from pyro_crowdclust.partitions.gibbs import SortedItems, visit_paged_items

    spread = spreads.clamp(max=ANYWHERE).contiguous().numpy()
    each = spread / paged.pages.num_groups.numpy()

    def visit(number: int, begin: int, chain: Chain, weights: PartitionWeights) -> int:
        pages = SortedItems(*paged.by_item, *paged.by_page, each[number], spread[number])
        return visit_paged_items(pages, begin, chain, weights)

    return visited(labels, paged.connections, prior, visit)
