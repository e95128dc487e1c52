"""Known classes that are held out, and what predicts them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data import some_items
from pyro_crowdclust.interface.holding_out.known_classes import known_folds, known_split
from pyro_crowdclust.results import known_class_probabilities

from ..small_choices import small, wide_clusters


def test_classes_of_held_out_items_are_predicted_by_the_table():
    features, kinds = wide_clusters()
    data = CrowdData(features, known=[*kinds[:45], *[None] * 45])
    one = known_split(data, 0.4, torch.Generator().manual_seed(0))
    assert len(one.item) == 18
    assert bool((one.data.known[one.item] == -1).all())
    assert one.classes.tolist() == kinds[one.item].tolist()
    kept = one.data.known[one.data.known >= 0]
    shares = (torch.bincount(kept, minlength=3) + 1.0) / (len(kept) + 3)
    assert one.chance == pytest.approx(float(shares[one.classes].log().mean()))
    result = small(one.data, 3, forms=1).forms[0].recipe(one.data, 3).fit(progress=False)
    found = one.log_probability(result)
    np.testing.assert_allclose(
        np.exp(found), known_class_probabilities(result)[one.item, one.classes], atol=1e-6
    )
    assert found.mean() > one.chance


def test_every_label_is_held_out_once_except_the_only_one_of_a_class():
    known = ["a"] * 7 + ["b"] * 6 + ["c"] + [None] * 5
    data = CrowdData(np.arange(19.0)[:, None], known=known)
    folds = known_folds(data, 4, torch.Generator().manual_seed(0))
    held = torch.cat([one.item for one in folds])
    assert sorted(held.tolist()) == [*range(13)]
    for one in folds:
        assert one.classes.tolist() == data.known[one.item].tolist()
        assert torch.equal((one.data.known != data.known).nonzero()[:, 0], one.item.sort().values)
        assert set(one.data.known.unique().tolist()) == {-1, 0, 1, 2}
        assert all(1 <= int((one.classes == code).sum()) <= 2 for code in (0, 1))


def test_a_part_with_all_labels_has_the_folds_of_the_whole():
    known = [row % 3 if row % 5 == 0 else None for row in range(200)]
    whole = CrowdData(np.eye(200), known=known)
    items = torch.arange(200)[torch.arange(200) % 10 % 5 < 2]
    of_part, of_whole = (
        torch.cat([one.item for one in known_folds(data, 4, torch.Generator().manual_seed(0))])
        for data in (some_items(whole, items), whole)
    )
    assert len(of_whole) == 40
    assert torch.equal(items[of_part], of_whole)


@pytest.mark.parametrize("known", [None, ["a"] * 9 + ["b"] + [None] * 2], ids=["none", "few"])
def test_too_few_labels_have_no_folds(known):
    assert known_folds(CrowdData(np.eye(12), known=known), 4, torch.Generator()) == []


@pytest.mark.parametrize(("number", "held"), [(37, None), (38, 10), (100, 25)])
def test_the_number_that_is_held_out_does_not_depend_on_the_draw(number, held):
    data = CrowdData(np.eye(120), known=[row % 2 if row < number else None for row in range(120)])
    for seed in range(20):
        one = known_split(data, 0.25, torch.Generator().manual_seed(seed))
        assert (one and len(one.item)) == held
