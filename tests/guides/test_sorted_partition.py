"""Clusters from sorted pages alone: crowds made up, and the bound against its closed form."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, Fitted, fit, load
from pyro_crowdclust.annotators import PageUrns
from pyro_crowdclust.guides import SortedPartitionGuide
from pyro_crowdclust.metrics import adjusted_rand_index, clustering_accuracy
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.models import SortedPartition
from pyro_crowdclust.partitions import FewClusters, PagedItems, PitmanYor
from pyro_crowdclust.simulation import simulate_placements

from ..crowds import in_double

TRUTH = np.arange(48) % 3
ACCURACY = [0.95, 0.9, 0.85, 1 / 3]
COLUMNS = ["page", "item", "worker", "group"]


def crowd_of(truth: np.ndarray, accuracy: list[float], seed: int = 0, pages: int = 10) -> CrowdData:
    crowd = simulate_placements(truth, accuracy, pages_per_worker=pages, page_size=12, seed=seed)
    return CrowdData(None, placements=crowd[COLUMNS], item_ids=range(len(truth)))


def fitted(data: CrowdData, prior: FewClusters | PitmanYor | None = None, **sizes: int) -> Fitted:
    model = SortedPartition(PageUrns(data.num_workers), prior or FewClusters())
    sizes = {"num_draws": 10, "num_chains": 4} | sizes
    guide = SortedPartitionGuide(model, data.num_items, **sizes)
    options = {"batch_size": None, "step_size": 0.3, "epochs": 20, "progress": False}
    return fit(model, guide, data, dtype=torch.float64, **options)


@pytest.fixture(scope="module")
def result() -> Fitted:
    return in_double(lambda: fitted(crowd_of(TRUTH, ACCURACY)))


@pytest.mark.parametrize("prior", [FewClusters(), PitmanYor()])
def test_finds_clusters_and_who_guesses(prior):
    found = fitted(crowd_of(TRUTH, ACCURACY), prior)
    assert clustering_accuracy(TRUTH, found.assignments) > 0.95
    assert found.workers["weight"].idxmin() == 3
    assert found.workers["sensitivity"].argmax() in (0, 1)


def test_what_all_say_is_finer_than_what_anybody_says():
    """Of six kinds everybody tells three apart, pages of one worker always the same three."""
    kinds = np.arange(60) % 6
    joined = np.array([[0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 2, 0], [0, 1, 2, 0, 1, 2]])
    rng, rows = np.random.default_rng(0), []
    for page in range(36):
        worker = page % 3
        items = rng.choice(60, 20, replace=False)
        rows += [(page, item, worker, joined[worker, kinds[item]]) for item in items]
    table = dict(zip(COLUMNS, np.array(rows).T, strict=True))
    found = fitted(CrowdData(None, placements=table, item_ids=range(60)))
    assert adjusted_rand_index(kinds, found.assignments) > 0.9
    # Two kinds that somebody joins are one group of theirs on most pages.
    pages = found.pages
    assert pages["lumped_pairs"].mean() > 2
    assert pages["misplaced"].mean() < 1
    assert pages.columns.tolist() == ["worker", "items", "groups", "lumped_pairs", "misplaced"]


def test_pages_that_share_no_item_are_apart():
    """Two crowds of other items each."""
    one = crowd_of(TRUTH, ACCURACY[:2]).pages
    other = one.assign(item=one["item"] + 48, page=one["page"] + 100)
    both = pd.concat([one, other])
    found = fitted(CrowdData(None, placements=both, item_ids=range(97))).assignments
    assert not set(found[:48]) & set(found[48:96])
    assert clustering_accuracy(TRUTH, found[48:96]) > 0.95


def test_elbo_is_that_of_the_draw_and_of_the_shares(result):
    guide, annotators = result.guide, result.model.annotators
    items = PagedItems(result.data.num_items, result.data.placements)
    posterior, prior = guide.posteriors["shares"], annotators.shares
    of_workers = items.log_workers(guide.labels.unsqueeze(0), annotators.spreads, 4)[0]
    expected = (of_workers + posterior.mean()).logsumexp(1).sum()
    expected += result.model.prior.log_prob(guide.labels, items.connections)
    expected -= posterior.distribution().divergence(prior.distribution())
    assert result.elbo_of(full_batch(result.data)) == pytest.approx(float(expected.detach()))


def test_new_pages_are_predicted_by_all_draws(result):
    """Better than by chance, and than pages on which nobody looked."""
    guide, model = result.guide, result.model
    new = crowd_of(TRUTH, [0.95] * 4, seed=9, pages=2).placements
    found = guide.log_page_probabilities(new)
    shares = torch.tensor([guide.posteriors["shares"].natural_parameters.tolist()]) + 1
    shares = (shares / shares.sum()).double()
    items, draws = PagedItems(48, new), guide.partition_draws()
    each = torch.stack(
        [items.log_groups(z.unsqueeze(0), model.annotators.spreads)[0] for z in draws]
    )
    expected = (shares * each.exp()).sum(2).mean(0).log()
    torch.testing.assert_close(found, expected)
    chance = -new.page_sizes * new.num_groups.double().log()
    assert float((found - chance).mean()) > 4
    guessed = crowd_of(TRUTH, [1 / 3] * 4, seed=9, pages=2).placements
    assert float(guide.log_page_probabilities(guessed).mean()) < float(found.mean())


@pytest.mark.long
def test_intervals_of_workers_cover_their_rates():
    """Of accuracy a among three clusters a^2 + (1 - a)^2 / 2 of the pairs of one are together."""
    inside = []
    for seed in range(6):
        table = fitted(crowd_of(TRUTH, ACCURACY[:3], seed)).workers
        accuracy = np.array(ACCURACY[:3])
        rate = accuracy**2 + (1 - accuracy) ** 2 / 2
        lower, upper = table["sensitivity_lower"], table["sensitivity_upper"]
        inside += [*((lower <= rate) & (rate <= upper))]
    assert np.mean(inside) > 0.75


def test_workers_without_pages_are_like_all_others(result):
    """Where their pages are held out."""
    data = crowd_of(TRUTH, ACCURACY)
    heard = data.placements.worker != 3
    table = fitted(data.with_parts(placements=data.placements.of_pages(heard))).workers
    mean = table.loc[:2, "sensitivity"].mean()
    assert table.loc[3, "sensitivity"] == pytest.approx(mean, abs=0.05)


def test_saved_and_loaded_it_goes_on_with_new_workers(result, tmp_path):
    result.save(tmp_path / "fit.safetensors")
    loaded = load(tmp_path / "fit.safetensors")
    np.testing.assert_array_equal(loaded.assignments, result.assignments)
    assert loaded.workers.equals(result.workers)
    assert loaded.pages.equals(result.pages)
    more = simulate_placements(TRUTH, [0.95], pages_per_worker=2, page_size=12, seed=5)
    more = more.assign(page="new" + more["page"].astype(str), worker=77)[COLUMNS]
    updated = loaded.update(placements=more)
    assert updated.workers.index.tolist() == [0, 1, 2, 3, 77]
    assert clustering_accuracy(TRUTH, updated.assignments) > 0.95


def test_data_must_have_pages_of_these_workers():
    data = crowd_of(TRUTH, ACCURACY)
    model = SortedPartition(PageUrns(4), FewClusters())
    with pytest.raises(ValueError, match="no sorted pages"):
        model.check(data.as_pairs())
    with pytest.raises(ValueError, match="annotators have 3 workers, but the data have 4"):
        SortedPartition(PageUrns(3), FewClusters()).check(data)
