"""Which items are called positive: against every subset of the items, and truths drawn."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.metrics import f1_score

from pyro_crowdclust.pooling import choose_positives


def exact(p: np.ndarray, chosen: np.ndarray) -> float:
    """``E[F1]`` as the sum over every possible truth."""
    total = 0.0
    for truth in product((0, 1), repeat=len(p)):
        y = np.array(truth)
        weight = np.where(y == 1, p, 1 - p).prod()
        total += weight * 2 * (y & chosen).sum() / max(y.sum() + chosen.sum(), 1)
    return total


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_without_a_margin_no_subset_has_a_much_larger_expected_f1(seed):
    p = np.random.default_rng(seed).beta(0.7, 1.2, size=8)
    subsets = [np.array(one) for one in product((0, 1), repeat=8)]
    best = max(exact(p, one) for one in subsets)
    # A ratio of expectations in place of the expectation, which eight items can tell apart.
    assert exact(p, choose_positives(p, 0.0, overstated=1.0).astype(int)) > best - 0.02


def test_many_items_that_are_likely_different_are_called_the_same_where_nobody_knows_better():
    # Two judges who nearly always say "same", a third who never does.
    rng = np.random.default_rng(0)
    p = np.repeat([0.36, 0.03, 0.7], [1275, 1190, 4])
    same = rng.random(len(p)) < p
    chosen = choose_positives(p)
    assert chosen.sum() == 1279
    assert f1_score(same, chosen) > 0.45
    assert f1_score(same, p > 0.5) < 0.03


def test_one_half_stays_where_little_is_to_be_gained():
    p = np.repeat([0.95, 0.42, 0.02], [100, 5, 900])
    assert choose_positives(p).sum() == 100
    # All is below half of the best F1, so that nothing is to be gained at all.
    p = np.repeat([0.95, 0.2, 0.02], [100, 5, 900])
    assert choose_positives(p, margin=0.0).sum() == 100


@pytest.mark.parametrize(("margin", "overstated"), [(0.0, 1), (0.02, 2), (0.05, 2), (0.1, 3)])
def test_one_half_stays_unless_others_promise_more_by_the_margin(margin, overstated):
    rng, changed = np.random.default_rng(0), 0
    for _ in range(60):
        p = np.sort(rng.beta(1.0, 2.0, size=9))[::-1]
        at_least = expit(logit(p) - np.log(overstated))
        promised = [2 * at_least[:k].sum() / (k + at_least.sum()) for k in range(1, 10)]
        half = int((p > 0.5).sum())
        size = half
        if max(promised) >= (promised[half - 1] if half else 0.0) + margin:
            size = int(np.argmax(promised)) + 1
        changed += size != half
        assert choose_positives(p, margin, overstated).tolist() == [
            place < size for place in range(9)
        ]
    assert 0 < changed < 60


def test_a_rare_class_does_not_take_in_items_that_all_seem_a_little_too_likely():
    p = np.repeat([0.9, 0.4, 0.002], [10, 54, 1900])
    assert choose_positives(p).sum() == 10
    assert choose_positives(p, overstated=1.0).sum() == 64


def test_nothing_is_positive_where_nothing_can_be():
    assert not choose_positives(np.zeros(3)).any()
    assert len(choose_positives([])) == 0


def test_equal_items_are_called_alike():
    assert len(set(choose_positives([0.4] * 7))) == 1
    assert choose_positives([0.5, 0.5], margin=0.0).all()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (([0.2, 1.3],), "row 1 is 1.3"),
        (([np.nan],), "row 0 is nan"),
        (([[0.2, 0.8]],), "must have one dimension"),
        (([0.2], -0.1), "margin is -0.1"),
        (([0.2], 0.1, 0.5), "overstated is 0.5"),
        (([1.0], 0.1, np.inf), "overstated is inf"),
    ],
)
def test_bad_arguments_are_named(arguments, error):
    with pytest.raises(ValueError, match=error):
        choose_positives(*arguments)
