"""Which components sorted pages call one cluster: against all partitions there are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import SortedPages, sites_of
from pyro_crowdclust.annotators.page_owners import PageOwners
from pyro_crowdclust.data import some_items
from pyro_crowdclust.distributions import ConjugatePosterior
from pyro_crowdclust.inference.owners import best_near, join, owners_bound
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import Ownership
from pyro_crowdclust.simulation import simulate_placements

COMPONENTS, ITEMS, WORKERS = 5, 60, 3
# Components 0 and 3 are one cluster, and 1 and 4 another.
KIND = np.array([0, 1, 2, 0, 1])
PRIOR = Ownership(COMPONENTS).prior.natural_parameters


def sorted_by_kind(doubt: float, seed: int = 0):
    """Workers' rates, q(z) of components, and the batch."""
    component = np.arange(ITEMS) % COMPONENTS
    placements = simulate_placements(
        KIND[component], [0.9] * WORKERS, pages_per_worker=4, page_size=15, seed=seed
    )
    data = CrowdData(None, placements=placements, item_ids=range(ITEMS))
    assert data.placements is not None
    # Two pages have no items: those of one are in other data, those of the other are held out.
    placed = data.placements
    here = torch.ones(ITEMS, dtype=torch.bool).index_fill(0, placed.item[placed.page == 0], False)
    data = some_items(data, here.nonzero().squeeze(1))
    kept = data.placements.of_pages(torch.arange(placed.num_pages) != 1)
    data = data.with_parts(placements=kept)
    component = component[here]
    annotators = SortedPages(WORKERS)
    rates = {name: ConjugatePosterior(prior).mean() for name, prior in annotators.priors().items()}
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(len(component), COMPONENTS, generator=generator).double()
    logits[range(len(component)), component] += 8 / doubt
    batch = full_batch(data).to(None, torch.float64)
    return annotators, rates, logits.softmax(1)[batch.items], batch


def evidence_of(doubt: float, seed: int = 0) -> PageOwners:
    annotators, rates, assignments, batch = sorted_by_kind(doubt, seed)
    return sites_of(annotators).owners_evidence(rates, assignments, batch)


def same(group: torch.Tensor) -> torch.Tensor:
    return group == group.unsqueeze(1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_the_joined_partition_has_the_largest_bound_of_all(seed):
    evidence = evidence_of(1.0, seed)
    one_hot = torch.eye(COMPONENTS, dtype=torch.float64)

    def bound(groups) -> float:
        return evidence.bound(one_hot[torch.tensor(groups)])

    best = max(itertools.product(range(COMPONENTS), repeat=COMPONENTS), key=bound)
    assert torch.equal(same(torch.tensor(best)), same(torch.from_numpy(KIND)))
    joined = join(evidence.gain)
    assert torch.equal(same(joined), same(torch.from_numpy(KIND)))
    found = best_near(evidence, PRIOR, one_hot[joined]).argmax(1)
    assert torch.equal(same(found), same(torch.from_numpy(KIND)))


@pytest.mark.parametrize("doubt", [1.0, 4.0])
def test_owners_are_no_worse_than_where_they_begin(doubt):
    evidence = evidence_of(doubt)
    generator = torch.Generator().manual_seed(1)
    start = torch.randn(COMPONENTS, COMPONENTS, generator=generator).double()
    found = best_near(evidence, PRIOR, start.softmax(1))
    assert owners_bound(evidence, found, PRIOR) > owners_bound(evidence, start, PRIOR)
    # At the maximum q(c) is what pages and prior say of it.
    again = best_near(evidence, PRIOR, found.softmax(1))
    torch.testing.assert_close(again.softmax(1), found.softmax(1), atol=5e-3, rtol=0)


def test_components_hear_what_is_said_of_their_clusters():
    annotators, rates, assignments, batch = sorted_by_kind(4.0)
    owners = torch.eye(3, dtype=torch.float64)[torch.from_numpy(KIND)]
    heard = sites_of(annotators, owners).coupling(rates, batch, torch.float64)
    of_clusters = sites_of(annotators).coupling(rates, batch, torch.float64)
    expected = of_clusters.messages(assignments @ owners)[:, KIND]
    torch.testing.assert_close(heard.messages(assignments), expected)
