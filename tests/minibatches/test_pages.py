from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import SortedPages
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.minibatches import (
    AnswerSampling,
    MinibatchSampler,
    Ranks,
    full_batch,
)
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.simulation import simulate_placements

TRUTH = np.arange(60) % 4


class Rank(Ranks):
    """One of several processes, without the others."""

    def __init__(self, rank: int, count: int) -> None:
        self.rank, self.count = rank, count


def crowd(items=40, page_size=8):
    return simulate_placements(
        TRUTH,
        [0.9, 0.7, 0.8],
        pages_per_worker=4,
        page_size=page_size,
        items=np.arange(items),
        seed=0,
    )


def data_of(**options):
    features = np.random.default_rng(0).normal(size=(60, 2)) + 4 * TRUTH[:, None]
    return CrowdData(features, placements=crowd(**options))


def sampler(data, size=60):
    generator = torch.Generator().manual_seed(0)
    return MinibatchSampler(data, batch_size=7, answers_per_step=size, generator=generator)


def test_the_full_batch_holds_every_page_as_it_is():
    data = data_of()
    batch = full_batch(data)
    pages, placements = batch.pages, data.placements
    assert torch.equal(batch.items[pages.row], placements.item)
    assert torch.equal(pages.page, placements.page)
    assert torch.equal(pages.group, placements.group)
    assert torch.equal(pages.worker, placements.worker)
    assert batch.num_paired == len(data.annotated_items)
    assert batch.num_pairs == 0
    assert "on 12 pages" in repr(batch)


def test_batches_hold_whole_pages_and_all_of_their_items():
    data = data_of()
    for batch in sampler(data):
        held = batch.items[batch.pages.row]
        assert torch.equal(held.unique(), batch.items[: batch.num_paired])
        for number in range(batch.pages.num_pages):
            placed = {
                (int(item), int(group))
                for item, group in zip(
                    held[batch.pages.page == number],
                    batch.pages.group[batch.pages.page == number],
                    strict=True,
                )
            }
            same = [
                set(
                    zip(
                        data.placements.item[of].tolist(),
                        data.placements.group[of].tolist(),
                        strict=True,
                    )
                )
                for of in (data.placements.page == page for page in range(12))
            ]
            assert placed in same


def test_weighted_sums_over_pages_and_items_are_unbiased():
    data = data_of()
    of_page = torch.arange(1.0, 13.0, dtype=torch.float64)
    of_item = torch.arange(60.0, dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    batches = MinibatchSampler(data, batch_size=7, answers_per_step=60, generator=generator)
    sums, numbers = [], []
    page_of = {
        (int(worker), tuple(sorted(items))): page
        for page, (worker, items) in enumerate(
            (
                data.placements.worker[page],
                data.placements.item[data.placements.page == page].tolist(),
            )
            for page in range(12)
        )
    }
    for _ in range(200):
        for batch in batches:
            pages = batch.pages
            codes = [
                page_of[
                    int(pages.worker[number]),
                    tuple(sorted(batch.items[pages.row[pages.page == number]].tolist())),
                ]
                for number in range(pages.num_pages)
            ]
            sums.append(float((pages.weight * of_page[codes]).sum()))
            numbers.append(float((batch.item_weight * of_item[batch.items]).sum()))
            torch.testing.assert_close(pages.placement_weight, pages.weight[pages.page])
    assert np.mean(sums) == pytest.approx(float(of_page.sum()), rel=0.02)
    assert np.mean(numbers) == pytest.approx(float(of_item.sum()), rel=0.02)


def test_a_page_counts_as_its_pairs():
    data = data_of()
    assert {batch.pages.num_pages for batch in sampler(data, size=3 * 28)} == {3}


@pytest.mark.parametrize("count", [2, 3])
def test_processes_share_pages_and_the_mean_of_their_sums_is_the_sum(count):
    data = CrowdData(None, placements=crowd(items=60, page_size=5), item_ids=range(60))
    parts = [full_batch(data, Rank(rank, count)) for rank in range(count)]
    whole = full_batch(data)
    held = [part.pages for part in parts if part.pages is not None]
    assert sum(pages.num_pages for pages in held) == 12
    placed = sorted(
        (int(item), int(group))
        for part in parts
        if part.pages is not None
        for item, group in zip(part.items[part.pages.row], part.pages.group, strict=True)
    )
    of_whole = zip(whole.items[whole.pages.row].tolist(), whole.pages.group.tolist(), strict=True)
    assert placed == sorted(of_whole)
    total = sum(float(pages.weight.sum()) for pages in held) / count
    assert total == pytest.approx(float(whole.pages.weight.sum()))
    items = sorted(int(item) for part in parts for item in part.items[part.item_weight > 0])
    assert items == list(range(60))


@pytest.mark.long
def test_the_bound_of_minibatches_is_that_of_the_data_on_average():
    data = data_of()
    model = SemiCrowdsourcedMixture(
        DirichletWeights(4), GaussianComponents(4, 2), Identity(), SortedPages(3)
    )
    result = fit(
        model,
        MessagePassingGuide(model),
        data,
        epochs=30,
        answer_sampling=AnswerSampling(10_000),
        progress=False,
    )
    found = [result.elbo_of(batch) for _ in range(60) for batch in sampler(data, size=168)]
    error = np.std(found) / np.sqrt(len(found))
    # Items on several pages hear all of them in the full batch, and fewer in a part.
    assert np.mean(found) == pytest.approx(result.elbo, abs=5 * error + 0.03 * abs(result.elbo))
