"""Whether a candidate predicts held-out labels better than chance."""

import numpy as np
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.class_labels.search import (
    ClassCandidate,
    ClassSearch,
    ClassTrial,
    _of_others,
    exceeds_chance,
    parts_of_seen_classes,
)

EVEN = np.full(100, np.log(0.5))


def predictions(sureness, share_right, seed):
    """Log-probability of labels, of two, by somebody who is right about some share of the items."""
    right = np.random.default_rng(seed).random(100) < share_right
    return np.log(np.where(right, sureness, 1 - sureness))


@pytest.mark.parametrize("sureness", [0.6, 0.99])
@pytest.mark.parametrize("num_candidates", [1, 6])
def test_chance_seldom_exceeds_itself(sureness, num_candidates):
    found = (predictions(sureness, 0.5, seed) for seed in range(1000))
    told = [exceeds_chance(one, EVEN, num_candidates) for one in found]
    level = 0.05 / num_candidates
    assert np.mean(told) < level + 3 * np.sqrt(level / 1000)


def test_who_is_right_oftener_than_chance_exceeds_it_however_sure():
    found = predictions(0.999, 0.75, seed=0)
    assert found.mean() < EVEN.mean()
    assert exceeds_chance(found, EVEN, 6)


def test_one_item_of_many_labels_does_not_outweigh_all_others():
    """Its gain is unbounded, and so is what it adds to the standard error."""
    found = predictions(0.9, 0.9, seed=0)
    several = EVEN.copy()
    found[0], several[0] = np.log(0.5), np.log(0.5) - 8  # 3,000 times as likely
    gain = np.expm1(found - several)
    assert gain.mean() < 2 * gain.std() / np.sqrt(100)
    assert exceeds_chance(found, several, 6)


def sure(number, *sharpness, share_right=1.0):
    """A trial of two classes of features that are so sure: odds of 1,000 to one, to a power."""
    odds = 1000.0 ** np.array(sharpness)[:, None]
    right = np.arange(number) < share_right * number
    own = np.where(right, np.log(odds / (1 + odds)), np.log(1 / (1 + odds)))
    of_others = np.full(own.shape, np.log(odds / (1 + odds)) + np.log(1 / (1 + odds))) / 2
    candidate = ClassCandidate("columns", "full Gaussians", None, sharpness)
    return ClassTrial(candidate, own, of_others, 0.0)


def test_the_score_counts_half_an_item_more_that_features_mislead_about():
    rng = np.random.default_rng(0)
    own, of_others = rng.normal(size=(2, 3, 7))
    trial = ClassTrial(
        ClassCandidate("columns", "kind", None, (1.0, 0.5, 0.2)), own, of_others, 0.0
    )
    expected = [
        (one.sum() + other.mean() / 2) / 7.5 for one, other in zip(own, of_others, strict=True)
    ]
    np.testing.assert_allclose(trial.scores, expected)
    best = int(np.argmax(expected))
    assert trial.score == pytest.approx(max(expected))
    assert trial.sharpness == (1.0, 0.5, 0.2)[best]
    np.testing.assert_array_equal(trial.by_item, own[best])


def test_to_be_right_of_few_items_is_no_reason_to_be_sure():
    powers = (1.0, 0.5, 0.35, 0.2)
    assert [sure(number, *powers).sharpness for number in (3, 12, 400)] == [0.35, 0.5, 1.0]
    assert sure(400, *powers, share_right=0.8).sharpness == 0.2


def searched(*trials):
    search = ClassSearch.__new__(ClassSearch)
    search.interrupted, search.trials = False, list(trials)
    return search._winner()


def test_the_best_of_those_that_tell_is_taken_and_none_where_none_does():
    even = np.full((1, 100), np.log(0.5))
    alone = ClassTrial(ClassCandidate("none", "labels alone", None), even, even, 0.0)
    good, better = sure(100, 1.0, share_right=0.7), sure(100, 1.0, 0.2, share_right=0.7)
    guess = sure(100, 1.0, 0.01, share_right=0.5)
    winner, reason = searched(alone, good, better, guess)
    assert winner is better
    assert reason.startswith("it predicts held-out labels best")
    winner, reason = searched(alone, guess)
    assert winner is alone
    assert "no candidate with features predicts held-out labels" in reason


def test_of_few_items_a_gain_is_enough():
    even = np.full((1, 6), np.log(0.5))
    alone = ClassTrial(ClassCandidate("none", "labels alone", None), even, even, 0.0)
    right, guess = (sure(6, 1.0, 0.35, 0.2, share_right=share) for share in (0.8, 0.6))
    others = [guess] * 6
    assert not exceeds_chance(right.as_fitted, even[0], 7)
    assert searched(alone, right, *others)[0] is right
    assert searched(alone, *others)[0] is alone


def test_of_many_items_a_gain_that_may_be_luck_is_not():
    even = np.full((1, 100), np.log(0.5))
    alone = ClassTrial(ClassCandidate("none", "labels alone", None), even, even, 0.0)
    lucky = sure(100, 1.0, 0.04, share_right=0.57)
    assert 100.5 * (lucky.score - alone.score) > 0.5
    assert searched(alone, lucky)[0] is alone


def test_labels_of_others_are_those_of_all_others_in_the_part():
    found = np.arange(18.0).reshape(2, 3, 3)
    expected = [[(1 + 2) / 2, (3 + 5) / 2, (6 + 7) / 2], [(10 + 11) / 2, (12 + 14) / 2, 15.5]]
    np.testing.assert_allclose(_of_others(found), expected)
    np.testing.assert_allclose(_of_others(found[:, :1, :1]), [[0], [9]])


def test_a_class_that_is_held_out_as_a_whole_says_nothing():
    said = {"item": [0, 0, 1, 2, 3, 4], "worker": list("abaaaa"), "label": list("xzxyyx")}
    data = CrowdData(None, labels=said)
    parts = parts_of_seen_classes(data, folds=5, seed=0)
    kept = sorted(int(item) for _, held in parts for item in held.item)
    assert kept == [1, 2, 3, 4]  # nobody else says z
    for seen, held in parts:
        assert set(held.label.tolist()) <= set(seen.class_labels.label.tolist())
    alone = CrowdData(None, labels={"item": [0, 1], "worker": list("aa"), "label": list("xy")})
    every = [held for _, held in parts_of_seen_classes(alone, folds=2, seed=0)]
    assert sorted(int(held.item) for held in every) == [0, 1]  # all would be left out
