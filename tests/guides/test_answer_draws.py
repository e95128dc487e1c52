"""Groups of items from draws of a partition by the answers alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.guides import answer_draws, drawn_groups
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.simulation import simulate_pairs, simulate_placements
from pyro_crowdclust.starts.most_asked import most_asked

KINDS = np.repeat(np.arange(3), [30, 20, 10])
RATES = [0.85] * 5
WITH_GAPS = np.where(np.arange(160) % 7 == 0, np.nan, np.arange(160.0)).reshape(80, 2)


def crowd(features: np.ndarray | None = None) -> CrowdData:
    """Five workers, eighteen answers an item, about the first 60 of 80 items."""
    pairs = simulate_pairs(KINDS, RATES, RATES, pairs_per_worker=110, seed=0)
    items = None if features is not None else range(80)
    return CrowdData(features, pairs, item_ids=items)


@pytest.mark.long
@pytest.mark.parametrize("features", [None, WITH_GAPS], ids=["none", "gaps"])
def test_they_are_what_people_see_whatever_the_features_are(features):
    for groups in drawn_groups(crowd(features), 10).numpy():
        assert (groups[60:] == -1).all()
        assert set(groups[:60]) - {-1} == {0, 1, 2}
        assert clustering_accuracy(KINDS, np.where(groups[:60] < 0, 3, groups[:60])) > 0.95
        assert (np.diff(np.bincount(groups[groups >= 0])) <= 0).all()


@pytest.mark.long
def test_chains_that_agree_are_one_partition_and_others_are_all_there():
    said = simulate_pairs(KINDS, [1.0] * 5, [1.0] * 5, pairs_per_worker=200, seed=0)
    assert len(drawn_groups(CrowdData(None, said), 10)) == 1
    rng = np.random.default_rng(0)
    left, right = rng.permutation(np.stack(np.triu_indices(40, 1)), axis=1)[:, :300]
    guesses = {"left": left, "right": right, "worker": ["a"] * 300}
    data = CrowdData(None, guesses | {"label": rng.integers(0, 2, 300)}, item_ids=range(40))
    drawn = drawn_groups(data, 10, max_chains=4)
    assert 1 < len(drawn) <= 5
    assert len(drawn.unique(dim=0)) == len(drawn)


@pytest.mark.long
def test_the_largest_are_numbered_and_small_ones_are_none(monkeypatch):
    data = crowd()
    whole, two = (drawn_groups(data, most, max_chains=2) for most in (10, 2))
    assert torch.equal(two, torch.where(whole < 2, whole, -1))
    monkeypatch.setattr(answer_draws, "_MIN_ITEMS", 15)
    assert drawn_groups(data, 10, max_chains=2).max() == 1


@pytest.mark.long
def test_items_with_the_most_answers_come_first():
    data = crowd()
    groups = drawn_groups(data, 10, max_items=40)[0]
    assert bool((groups[~most_asked(data, 40)] == -1).all())
    assert 35 <= int((groups >= 0).sum()) <= 40
    star = {"left": [0, 0], "right": [1, 2], "worker": list("aa"), "label": [1, 0]}
    assert drawn_groups(CrowdData(None, star), 3, max_items=1).tolist() == [[-1, -1, -1]]


@pytest.mark.long
def test_of_sorted_pages():
    """By the pages themselves, or by their pairs where an item is on one page."""
    pages = simulate_placements(KINDS, RATES, pages_per_worker=6, page_size=15, seed=0)
    data = CrowdData(np.zeros((60, 1)), placements=pages)
    assert data.placements.pages_of_an_item > 4
    (groups,) = drawn_groups(data, 10).numpy()
    assert clustering_accuracy(KINDS, np.where(groups < 0, 3, groups)) > 0.95
    once = CrowdData(np.zeros((60, 1)), placements=pages[pages["page"] < 3])
    of_pairs = drawn_groups(once.as_pairs(), 10)
    assert torch.equal(drawn_groups(once, 10), of_pairs)
    assert int(of_pairs.max()) > 0


def test_who_cannot_tell_says_nothing():
    said = {"left": [0, 1], "right": [1, 2], "worker": ["a"] * 2, "label": [None, None]}
    assert drawn_groups(CrowdData(None, said, grades=[0, 1]), 3).tolist() == [[-1, -1, -1]]
    assert drawn_groups(CrowdData(np.eye(3)), 3).tolist() == [[-1, -1, -1]]


@pytest.mark.long
def test_of_grades():
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 30, (2, 600))
    asked = np.unique(np.stack([left, right]), axis=1)
    left, right = asked[:, asked[0] < asked[1]]
    same = KINDS[2 * left] == KINDS[2 * right]
    grade = np.clip(np.where(same, 4, 1) + rng.integers(-1, 2, len(left)), 1, 4)
    said = {"left": left, "right": right, "worker": ["a"] * len(left), "label": grade}
    data = CrowdData(None, said, grades=[1, 2, 3, 4], item_ids=range(30))
    groups = drawn_groups(data, 5)[0].numpy()
    assert clustering_accuracy(KINDS[::2], np.where(groups < 0, 3, groups)) > 0.95
