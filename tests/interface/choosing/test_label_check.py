"""Fits with known labels are what held-out labels judged, not only what the ELBO prefers."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.data import some_items
from pyro_crowdclust.interface import advice
from pyro_crowdclust.interface.choosing import choice, label_check
from pyro_crowdclust.interface.choosing.label_check import LabelCheck
from pyro_crowdclust.interface.holding_out.known_classes import known_folds
from pyro_crowdclust.models import PairRegression, SemiCrowdsourcedMixture
from pyro_crowdclust.results import known_class_probabilities
from pyro_crowdclust.simulation import simulate_pairs
from pyro_crowdclust.starts import LabeledStart, PartitionStart
from pyro_crowdclust.training import is_interrupted

from ..small_choices import small, wide_clusters

NUM_ITEMS = 240


def sliced(number=60):
    """One normal distribution, cut into three classes along a line, with some known labels."""
    rng = np.random.default_rng(1)
    features = rng.normal(size=(NUM_ITEMS, 4))
    classes = np.digitize(features.sum(1) / 2, [-0.43, 0.43])
    return CrowdData(features, known=[*classes[:number], *[None] * (NUM_ITEMS - number)]), classes


def right(result, classes):
    others = result.data.known.numpy() < 0
    return (known_class_probabilities(result).argmax(1) == classes)[others].mean()


@pytest.fixture(scope="module")
def of_slices():
    data, classes = sliced()
    return small(data, 3, forms=1).fit(progress=False, num_starts=1), classes


@pytest.fixture
def attempts(monkeypatch):
    """A start whose components end alike, which the ELBO is taken to prefer, and one at labels."""
    monkeypatch.setattr(label_check, "best_first", lambda made: [one() for one in made])
    data, _ = sliced()
    recipe = small(data, 3, forms=1).forms[0].recipe(data, 3)
    alike = PartitionStart(np.full((NUM_ITEMS, 3), 1 / 3))

    def attempt(part, start):
        of_part = dataclasses.replace(recipe, data=part)
        return of_part.fit(initialize=start, epochs=5, progress=False)

    starts = alike, LabeledStart(unlabeled_weight=1.0)
    return recipe.data, [partial(attempt, start=start) for start in starts]


def test_the_start_that_predicts_labels_is_kept(attempts):
    data, both = attempts
    _, classes = sliced()
    check = LabelCheck(data, 1.0, 0, [], {})
    kept = check.best(both, data)
    assert kept.is_other
    assert right(kept.fitted, classes) > right(both[0](data), classes) + 0.2
    assert len(kept.held) == len(kept.items) == 60
    assert kept.held.mean() > check.chance + 0.2


def test_labels_do_not_take_items_from_new_kinds(attempts, monkeypatch):
    data, both = attempts
    usual = both[0](data).elbo
    shares = {True: 0.3, False: 0.24}  # of the fit that the ELBO prefers, and of the other
    monkeypatch.setattr(label_check, "_share_of_new_kinds", lambda one: shares[one.elbo == usual])
    check = LabelCheck(data, 1.0, 0, [], {})
    assert not check.best(both, data).is_other
    shares[False] = 0.26
    assert check.best(both, data).is_other


def test_better_predictions_are_both_clear_and_evidence():
    other = np.zeros(20)
    assert label_check._predicts_better(other + 0.2, other)
    assert not label_check._predicts_better(other[:10] + 0.2, other[:10])  # 2 nats in all
    assert not label_check._predicts_better(other + np.where(np.arange(20), -1, 24), other)


@pytest.mark.long
def test_the_largest_elbo_is_kept_where_labels_do_not_tell(attempts):
    data, both = attempts
    check = LabelCheck(data, 1.0, 0, [], {})
    usual = both[1]
    kept = check.best([usual, usual, both[0]], data)
    assert not kept.is_other
    np.testing.assert_allclose(kept.fitted.probabilities, usual(data).probabilities)
    few = data.with_parts(known=data.known.index_fill(0, torch.arange(9, 60), -1))
    kept = check.best(both, few)
    assert not kept.is_other
    assert kept.held is None
    assert check.regression_instead(kept) is None


def test_ctrl_c_while_labels_are_held_out_keeps_the_largest_elbo(attempts, monkeypatch):
    data, both = attempts
    fits = []

    def then_interrupted(part):
        fits.append(part)
        if len(fits) > 1:
            raise KeyboardInterrupt
        return both[0](part)

    kept = LabelCheck(data, 1.0, 0, [], {}).best([then_interrupted, both[1]], data)
    assert is_interrupted(kept.fitted)
    assert kept.held is None
    assert not kept.is_other


@pytest.mark.long
def test_a_regression_is_kept_where_classes_are_no_kinds(of_slices, tmp_path):
    result, classes = of_slices
    assert isinstance(result.model, PairRegression)
    assert right(result, classes) > 0.75
    assert "so the regression is kept" in result.chosen.reason
    table = result.chosen.table
    assert table["chosen"].tolist() == [False] * (len(table) - 1) + [True]
    assert result.chosen.held_out > result.chosen.chance
    assert len(np.unique(result.assignments)) == 3
    assert advice(result) == []
    result.save(tmp_path / "fit")
    again = load(tmp_path / "fit", data=result.data)
    np.testing.assert_allclose(again.probabilities, result.probabilities)
    known = known_class_probabilities(again)
    np.testing.assert_allclose(known, known_class_probabilities(result))
    below, above = again.predict(np.array([[-2.0] * 4, [2.0] * 4]))
    assert below != above


@pytest.mark.long
def test_a_part_with_all_labels_is_compared_by_the_same_items(attempts):
    """The items are what counts: a part with as many other labels is not compared."""
    whole, both = attempts
    check = LabelCheck(whole, 1.0, 0, [], {"epochs": 2, "batch_size": None})
    part = some_items(whole, torch.arange(NUM_ITEMS)[:150])
    kept = check.best(both[1:], part)
    folds = known_folds(whole, 4, torch.Generator().manual_seed(0))
    assert kept.items.tolist() == torch.cat([one.item for one in folds]).tolist()
    kept = dataclasses.replace(kept, held=np.full_like(kept.held, -9.0))
    assert check.regression_instead(kept) is not None
    others = dataclasses.replace(kept, items=kept.items[::-1])
    assert check.regression_instead(others) is None


@pytest.mark.long
def test_a_mixture_is_kept_where_it_found_kinds_without_a_label(attempts, monkeypatch):
    data, both = attempts
    check = LabelCheck(data, 1.0, 0, [], {"epochs": 2, "batch_size": None})
    kept = check.best(both[:1], data)
    # Any regression is better.
    kept = dataclasses.replace(kept, held=np.full_like(kept.held, -9.0))
    for share, is_replaced in {0.04: True, 0.06: False}.items():
        monkeypatch.setattr(label_check, "_share_of_new_kinds", lambda _, share=share: share)
        found = check.regression_instead(kept)
        assert (found is not None) == is_replaced


def test_new_kinds_are_in_clusters_in_which_no_item_has_a_label():
    features, kinds = wide_clusters()
    known = [kind if kind < 2 and row < 30 else None for row, kind in enumerate(kinds)]
    result = small(CrowdData(features, known=known), 3, forms=1).fit(progress=False, num_starts=1)
    assert label_check._share_of_new_kinds(result) == pytest.approx(1 / 3)
    # Seven labels of random items miss a third of the items once in 17 times, eight in 26 times.
    rows = [kinds.tolist().index(kind, place) for place in range(0, 12, 3) for kind in (0, 1)]
    for number, share in {7: 0, 8: 1 / 3}.items():
        few = torch.full((90,), -1)
        few[rows[:number]] = torch.as_tensor(kinds[rows[:number]])
        of_few = dataclasses.replace(result, data=result.data.with_parts(known=few))
        assert label_check._share_of_new_kinds(of_few) == pytest.approx(share)


def test_a_kind_with_the_only_label_of_its_class_is_new_as_well():
    """No held-out label says whether items of the class are found."""
    features, kinds = wide_clusters()
    known = [kind if row < 30 else None for row, kind in enumerate(kinds)]
    result = small(CrowdData(features, known=known), 3, forms=1).fit(progress=False, num_starts=1)
    assert label_check._share_of_new_kinds(result) == 0
    few = [None if kind == 2 and row > 2 else kind for row, kind in enumerate(known)]
    # One label of another class in the cluster leaves it open, two do not.
    for others, share in {(): 1 / 3, (5,): 1 / 3, (5, 8): 0}.items():
        codes = torch.tensor([-1 if one is None else int(one) for one in few])
        codes[[*others]] = 1
        of_few = dataclasses.replace(result, data=result.data.with_parts(known=codes))
        assert label_check._share_of_new_kinds(of_few) == pytest.approx(share)


@pytest.mark.long
def test_the_first_answers_choose_again(of_slices, monkeypatch):
    result, classes = of_slices
    answers = simulate_pairs(classes, [0.9] * 3, [0.9] * 3, pairs_per_worker=100, seed=0)
    seen = []
    monkeypatch.setattr(choice.Choice, "fit", lambda self, **_: seen.append(self.data) or result)
    result.update(answers)
    (data,) = seen
    assert data.num_workers == 3
    assert torch.equal(data.known, result.data.known)


@pytest.mark.long
def test_a_mixture_is_kept_where_classes_are_kinds():
    features, kinds = wide_clusters()
    data = CrowdData(features, known=[*kinds[:30], *[None] * 60])
    result = small(data, 4, forms=1).fit(progress=False, num_starts=1)
    assert isinstance(result.model, SemiCrowdsourcedMixture)
    assert right(result, kinds) == 1


@pytest.mark.long
@pytest.mark.parametrize("options", [{"initialize": LabeledStart()}, {"num_starts": 2}])
def test_ctrl_c_among_the_regressions_keeps_the_mixture(options, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(label_check, "regressions_for", interrupted)
    data, _ = sliced()
    result = small(data, 3, forms=1).fit(progress=False, epochs=3, **options)
    assert isinstance(result.model, SemiCrowdsourcedMixture)
    # A start of the user's is for mixtures, so that no regression is tried.
    assert is_interrupted(result) == ("initialize" not in options)
