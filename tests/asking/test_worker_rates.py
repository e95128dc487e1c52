"""What the rates of workers mean for answers of every kind."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pyro_crowdclust.annotators.sorted_pages import pair_rates
from pyro_crowdclust.asking.worker_rates import (
    GradeRates,
    LabelRates,
    PairRates,
    PlacementRates,
    drawn,
)

CONFUSION = np.array(
    [[[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.1, 0.1, 0.8]], [[0.2, 0.5, 0.3]] * 3],
)
# Pseudo-counts of each row.
ROWS = np.array([[30.0, 10.0, 20.0], [4.0, 5.0, 6.0]])[..., None]
RATES = {
    "pairs": PairRates(np.array([[[24.0, 6.0], [54.0, 6.0]], [[2.0, 1.0], [10.0, 10.0]]])),
    "placements": PlacementRates(np.array([[9.0, 1.0], [4.0, 6.0]])),
    "grades": GradeRates(
        np.array([[[60.0, 30.0, 10.0], [10.0, 40.0, 50.0]], [[5.0, 3.0, 2.0], [4.0, 3.0, 3.0]]])
    ),
    "labels": LabelRates(ROWS * CONFUSION),
}


@pytest.mark.parametrize("rates", RATES.values(), ids=RATES.keys())
def test_draws_have_the_moments_of_the_posteriors(rates):
    generator = np.random.default_rng(0)
    draws = np.stack([rates.draw(generator) for _ in range(4000)])
    np.testing.assert_allclose(draws.mean(0), rates.mean(), atol=0.01)
    counts, total = rates.counts, rates.counts.sum(-1, keepdims=True)
    mean = counts / total
    sd = np.sqrt(mean * (1 - mean) / (total + 1))
    # Of a Beta the first share is drawn.
    expected = sd if rates.mean().shape == counts.shape else sd[..., 0]
    np.testing.assert_allclose(draws.std(0), expected, rtol=0.1)


@pytest.mark.parametrize("rates", RATES.values(), ids=RATES.keys())
def test_channels_are_probabilities_and_who_guesses_is_not_reliable(rates):
    means = rates.mean()
    for channels in (rates.pair_channels(means, 3), rates.label_channels(means, 3)):
        assert (channels >= 0).all()
        np.testing.assert_allclose(channels.sum(-1), 1.0)
    good, bad = rates.reliability(means, 3)
    assert 1 > good > 0.5 > bad >= 0


def test_what_is_known_of_a_worker_is_that_of_all_rates():
    assert RATES["pairs"].pseudo_counts(0) == (39.0, 6.0)
    assert RATES["pairs"].pseudo_counts(1) == (6.0, 5.5)
    assert RATES["placements"].pseudo_counts(1) == (4.0, 6.0)
    # The second and third grade are likelier of pairs that are the same.
    assert RATES["grades"].pseudo_counts(0) == (75.0, 25.0)
    assert RATES["labels"].pseudo_counts(0) == pytest.approx((43 / 3, 17 / 3))


def test_who_says_the_opposite_is_as_reliable_as_who_is_right():
    good = PairRates(np.array([[[90.0, 10.0], [80.0, 20.0]]]))
    opposite = PairRates(good.counts[..., ::-1])
    assert opposite.reliability(opposite.mean(), 3) == good.reliability(good.mean(), 3)
    assert opposite.say_opposite().all()
    assert not good.say_opposite().any()
    # .4 of ten answers to each may be chance.
    assert not PairRates(np.full((1, 2, 2), [4.0, 6.0])).say_opposite().any()
    assert PairRates(np.full((1, 2, 2), [40.0, 60.0])).say_opposite().all()
    assert not RATES["labels"].say_opposite().any()


def test_who_is_never_wrong_may_still_be():
    right, wrong = LabelRates(np.array([[[5.0]]])).pseudo_counts(0)
    assert right == 5.0
    assert 0 < wrong < 0.01


@pytest.mark.parametrize("accuracy", [0.25, 0.5, 0.9, 1.0])
def test_placements_their_pairs_and_even_labels_are_equally_reliable(accuracy):
    values, number = np.array([accuracy]), 4
    placing, nobody = PlacementRates(np.ones((1, 2))), np.ones((1, 2, 2))
    reliability = placing.reliability(values, number)
    assert reliability == pytest.approx(accuracy - (1 - accuracy) / 3)
    same, different = pair_rates(values, number)
    expected = [[different[0], 1 - different[0]], [1 - same[0], same[0]]]
    np.testing.assert_allclose(placing.pair_channels(values, number)[0], expected)
    coins = np.stack([same, different], -1)
    assert PairRates(nobody).reliability(coins, number) == pytest.approx(reliability, abs=1e-7)
    matrices = placing.label_channels(values, number)
    even = np.full((4, 4), (1 - accuracy) / 3)
    np.fill_diagonal(even, accuracy)
    np.testing.assert_allclose(matrices[0], even)
    labels = LabelRates(matrices)
    assert labels.reliability(matrices, number) == pytest.approx(reliability)
    np.testing.assert_allclose(labels.pair_channels(matrices, number)[0], expected)


def test_pairs_of_labels_are_compared_by_brute_force():
    (first, _) = CONFUSION
    same = np.mean([first[c] @ first[c] for c in range(3)])
    other = np.mean([first[c] @ first[d] for c in range(3) for d in range(3) if c != d])
    found = LabelRates(CONFUSION).pair_channels(CONFUSION, 3)
    np.testing.assert_allclose(found[0], [[1 - other, other], [1 - same, same]])
    # A single class has no other.
    one = np.ones((1, 1, 1))
    np.testing.assert_allclose(LabelRates(one).pair_channels(one, 1)[0], [[1, 0], [0, 1]])
    assert LabelRates(one).reliability(one, 1).tolist() == [0.0]


def test_labels_are_reliable_as_far_as_they_beat_chance():
    """Of .7, .6 and .8 that are right one third is chance."""
    found = LabelRates(CONFUSION).reliability(CONFUSION, 3)
    assert found == pytest.approx([(0.7 - 1 / 3) / (2 / 3), 0.0])


def test_even_labels_of_one_draw_have_one_rate():
    rates, generator = PlacementRates(np.array([[9.0, 1.0]])), np.random.default_rng(0)
    found = drawn(lambda: rates.label_channels(rates.draw(generator), 4))[:, 0]
    assert found.shape == (256, 4, 4)
    np.testing.assert_allclose(found.diagonal(axis1=1, axis2=2).std(-1), 0.0, atol=1e-12)
    np.testing.assert_allclose(found[:, 0, 0].std(), stats.beta(9, 1).std(), rtol=0.2)


@pytest.mark.parametrize(("size", "number"), [(10, 256), (50_000, 80), (1_000_000, 32)])
def test_draws_of_large_crowds_are_fewer(size, number):
    assert len(drawn(lambda: np.empty(size, dtype=np.float16))) == number
