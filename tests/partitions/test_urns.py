"""Urns of clusters on pages: against scipy, the exact posterior, and counting one by one."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.partitions import (
    FewClusters,
    PagedItems,
    PitmanYor,
    UrnGroups,
    sweep_pages,
)

from .partitions import every_partition

SPREADS = (0.1, 1.0, math.inf)
# Two workers; item 4 is on one page alone, and page 3 has groups that only one item is in.
PAGES = pd.DataFrame(
    [
        *[(0, i, "a", g) for i, g in zip(range(4), "xxyy", strict=True)],
        *[(1, i, "b", g) for i, g in zip([3, 0, 1], "xyx", strict=True)],
        *[(2, i, "a", g) for i, g in zip([2, 3, 4], "xxy", strict=True)],
    ],
    columns=["page", "item", "worker", "group"],
)


def paged(pages: pd.DataFrame = PAGES, num_items: int = 5) -> PagedItems:
    data = CrowdData(None, placements=pages, item_ids=range(num_items))
    return PagedItems(num_items, data.placements)


def log_page(groups: np.ndarray, labels: np.ndarray, num_groups: int, spread: float) -> float:
    """By scipy's Dirichlet-multinomial, less the orders of the items."""
    if math.isinf(spread):
        return -len(groups) * math.log(num_groups)
    total = 0.0
    for k in np.unique(labels):
        counts = np.bincount(groups[labels == k], minlength=num_groups)
        orders = scipy.stats.multinomial.logpmf(counts, counts.sum(), np.full(num_groups, 0.5))
        orders -= counts.sum() * math.log(0.5)
        alpha = np.full(num_groups, spread / num_groups)
        total += scipy.stats.dirichlet_multinomial.logpmf(counts, alpha, counts.sum()) - orders
    return total


def each_page(items: PagedItems):
    pages = items.pages
    for page in range(pages.num_pages):
        at = pages.page == page
        yield items.item[at].numpy(), pages.group[at].numpy(), int(pages.num_groups[page])


def test_density_of_pages_is_dirichlet_multinomial():
    torch.set_default_dtype(torch.float32)  # that of a user's process
    items = paged()
    labels = torch.tensor([[0, 0, 1, 1, 2], [2, 0, 0, 1, 1]])
    found = items.log_groups(labels, SPREADS)
    for chain, page_density in zip(labels.numpy(), found, strict=True):
        for (item, group, number), row in zip(each_page(items), page_density, strict=True):
            expected = [log_page(group, chain[item], number, spread) for spread in SPREADS]
            np.testing.assert_allclose(row, expected, rtol=1e-10)
    of_workers = items.log_workers(labels, SPREADS, num_workers=3)
    np.testing.assert_allclose(of_workers[:, 0], found[:, [0, 2]].sum(1))
    np.testing.assert_allclose(of_workers[:, 1], found[:, 1])
    assert not of_workers[:, 2].any()


def test_density_is_one_over_all_groupings():
    """Of a page of three items in three groups."""
    pages = pd.DataFrame({"page": 0, "item": range(3), "worker": "a", "group": range(3)})
    items, labels = paged(pages, 3), torch.tensor([[0, 0, 1]])
    total = torch.zeros(len(SPREADS), dtype=torch.float64)
    for groups in itertools.product(range(3), repeat=3):
        total += items.with_groups(torch.tensor(groups)).log_groups(labels, SPREADS)[0, 0].exp()
    np.testing.assert_allclose(total, 1)


@pytest.mark.long
@pytest.mark.parametrize("prior", [FewClusters(), PitmanYor(0.2, 1.5)])
def test_sweeps_draw_from_the_exact_posterior(prior):
    """Two kinds of chains, of careful workers and of others; item 5 is on no page."""
    torch.manual_seed(0)
    items = paged(num_items=6)
    connections = items.connections
    every = [torch.cat([labels, torch.tensor([5])]) for labels in every_partition(5)]
    spreads = torch.tensor([[0.1] * 3, [1.0, math.inf, 1.0]], dtype=torch.float64)
    exact = []
    for of_chain in spreads.tolist():
        density = items.log_groups(torch.stack(every), (0.1, 1.0, math.inf))
        at = [(0.1, 1.0, math.inf).index(spread) for spread in of_chain]
        said = density[:, torch.arange(3), at].sum(1)
        prior_density = [float(prior.log_prob(labels, connections)) for labels in every]
        exact.append((said + torch.tensor(prior_density)).softmax(0))
    place = {tuple(labels.tolist()): number for number, labels in enumerate(every)}
    labels, counts = torch.zeros(80, 6, dtype=torch.int64), np.zeros((2, len(every)))
    for turn in range(120):
        labels = sweep_pages(labels, items, spreads.repeat(40, 1), prior)
        for chain, one in enumerate(labels.tolist() if turn >= 20 else []):
            assert one.count(one[5]) == 1
            met = tuple(map(list(dict.fromkeys(one)).index, one))
            counts[chain % 2, place[(*met[:5], 5)]] += 1
    np.testing.assert_allclose(counts / counts.sum(1, keepdims=True), torch.stack(exact), atol=0.03)


@pytest.mark.filterwarnings("ignore:placements page 1")  # all pages are alike
def test_items_make_room_for_clusters_of_their_own():
    """From one cluster to one for every item, where everybody puts each apart."""
    rows = [(p, i, "a", i) for p in range(30) for i in range(7)]
    items = paged(pd.DataFrame(rows, columns=["page", "item", "worker", "group"]), 7)
    labels, spreads = torch.zeros(3, 7, dtype=torch.int64), torch.full((3, 30), 0.1).double()
    for _ in range(3):
        labels = sweep_pages(labels, items, spreads, FewClusters())
    assert [sorted(one) for one in labels.tolist()] == [list(range(7))] * 3


def test_pages_without_items_say_nothing():
    data = CrowdData(None, placements=PAGES, item_ids=range(5))
    kept = torch.tensor([True, False, True])
    some = data.placements.of_pages(kept)
    items, labels = PagedItems(5, some), torch.tensor([[0, 0, 1, 1, 2]])
    whole, found = (one.log_groups(labels, SPREADS) for one in (paged(), items))
    np.testing.assert_allclose(found[:, kept], whole[:, kept])
    assert not found[:, 1].any()
    assert torch.isfinite(items.pair_counts(labels, 2)).all()
    drawn = sweep_pages(labels, items, torch.ones(1, 3).double(), FewClusters())
    assert drawn.shape == labels.shape


def test_pairs_of_workers_are_counted():
    items = paged()
    labels = torch.tensor([[0, 0, 1, 1, 2], [0, 1, 0, 1, 0]])
    found = items.pair_counts(labels, num_workers=2)
    for chain, of_chain in zip(labels.numpy(), found, strict=True):
        pairs, units = np.zeros((2, 2, 2)), np.zeros((2, 2))
        for worker, (item, group, _) in zip([0, 1, 0], each_page(items), strict=True):
            for i, j in itertools.combinations(range(len(item)), 2):
                same, together = chain[item[i]] == chain[item[j]], group[i] == group[j]
                pairs[worker, 0 if same else 1, int(same == together)] += 1
            sizes = np.unique(chain[item], return_counts=True)[1]
            units[worker] += (sizes - 1).sum() / 2, (len(item) - 1) * (len(sizes) > 1)
        expected = units[..., None] * pairs / np.maximum(pairs.sum(2, keepdims=True), 1)
        np.testing.assert_allclose(of_chain, expected)


def test_faults_of_pages_are_counted():
    rows = [(0, i, "a", g) for i, g in enumerate("xxxyyxz")]
    items = paged(pd.DataFrame(rows, columns=["page", "item", "worker", "group"]), 7)
    # Of the first four one is in y; the next two are in y and x, with y first; the last is alone.
    labels = torch.tensor([[0, 0, 0, 0, 1, 1, 2], [0, 0, 0, 1, 1, 0, 2], [0, 0, 0, 1, 1, 2, 3]])
    misplaced, lumped = items.faults(labels)[:, 0].unbind(1)
    assert misplaced.tolist() == [2, 0, 0]
    assert lumped.tolist() == [1, 0, 1]


@pytest.mark.long
def test_the_site_draws_what_it_says():
    torch.manual_seed(0)
    pages = pd.DataFrame({"page": [0, 0, 0], "item": range(3), "worker": "a", "group": [0, 1, 0]})
    items, labels = paged(pages, 3), torch.tensor([0, 0, 1])
    log_shares = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()
    site = UrnGroups(items, labels, SPREADS, log_shares)
    drawn = [tuple(site.sample().tolist()) for _ in range(4000)]
    exact = {
        groups: float(site.log_prob(torch.tensor(groups)).exp())
        for groups in itertools.product(range(2), repeat=3)
    }
    assert sum(exact.values()) == pytest.approx(1)
    for groups, probability in exact.items():
        assert drawn.count(groups) / len(drawn) == pytest.approx(probability, abs=0.03)


def test_gradient_in_log_shares_counts_the_workers():
    """By their responsibilities; a worker without pages is none."""
    items, labels = paged(), torch.tensor([0, 0, 1, 1, 2])
    log_shares = torch.tensor([-1.0, -0.5, -2.0], dtype=torch.float64, requires_grad=True)
    groups = items.pages.group
    UrnGroups(items, labels, SPREADS, log_shares).log_prob(groups).backward()
    of_workers = items.log_workers(labels.unsqueeze(0), SPREADS, 2)[0]
    expected = (of_workers + log_shares.detach()).softmax(1).sum(0)
    torch.testing.assert_close(log_shares.grad, expected)
