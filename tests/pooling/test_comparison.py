"""Which mean is larger by more than chance, and what guesses gain."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from pyro_crowdclust.pooling.comparison import (
    dyadic_error,
    error_of,
    error_of_mean,
    gain_by_a_part,
    is_clear,
    is_clearly_better,
)


@pytest.mark.parametrize("made", [np.array, torch.tensor])
@pytest.mark.parametrize(("mean", "is_clear"), [(0.95, False), (1.05, True)])
def test_clearly_better_is_by_two_standard_errors(made, mean, is_clear):
    """Of four answers, half of their deviation each."""
    one, other = made([1.0, -1.0, -1.0, 1.0]), made([-3.0, -1.0, -2.0, -4.0])
    assert is_clearly_better(other + mean + one, other) == is_clear
    assert is_clearly_better(other + mean + one, other, errors=1.8)
    assert not is_clearly_better(other, other + mean + one, errors=0.0)


def test_the_error_of_a_mean():
    values = np.random.default_rng(0).normal(size=20)
    assert error_of_mean(values) == pytest.approx(stats.sem(values, ddof=0))


def answers_about_few(rng: np.random.Generator, number: int, items: int) -> np.ndarray:
    left = rng.integers(0, items, number)
    return np.stack([left, (left + rng.integers(1, items, number)) % items])


def test_the_error_of_a_mean_counts_every_two_answers_that_share_an_item_once():
    rng = np.random.default_rng(0)
    ends = answers_about_few(rng, 60, 9)
    difference = rng.normal(size=9)[ends].sum(0) + rng.normal(size=60)
    residual = difference - difference.mean()
    variance = sum(
        residual[p] * residual[q]
        for p in range(60)
        for q in range(60)
        if set(ends[:, p]) & set(ends[:, q])
    )
    assert dyadic_error(difference, ends) == pytest.approx(np.sqrt(variance) / 60)


def test_answers_about_different_items_are_independent():
    rng = np.random.default_rng(0)
    difference = rng.normal(size=50)
    found = dyadic_error(difference, np.arange(100).reshape(2, 50))
    assert found == pytest.approx(difference.std() / np.sqrt(50))
    assert found == pytest.approx(error_of(difference, np.arange(50)))


def test_answers_that_contradict_each_other_do_not_make_an_error_small():
    """Of every pair one that gains and one that loses as much, and a little more."""
    ends = np.repeat(np.arange(40).reshape(2, 20), 2, axis=1)
    gain = np.tile([0.5, -0.5], 20) + 1e-9
    assert dyadic_error(gain, ends) == pytest.approx(0.5 / np.sqrt(40))
    assert not is_clear(gain, ends, 1)


def test_the_luckiest_of_many_that_guess_is_seldom_clear():
    """At most one time in twenty, though each is a sum of the moods of two items."""
    rng = np.random.default_rng(0)
    ends = answers_about_few(rng, 400, 60)
    clear = 0
    for _ in range(100):
        candidates = rng.normal(size=(20, 60))[:, ends].sum(1) + rng.normal(size=(20, 400))
        best = max(candidates, key=np.mean)
        clear += is_clear(best, ends, 20)
    assert clear <= 10
    assert is_clear(best - best.mean() + 1.5, ends, 20)


def test_a_part_of_a_prediction_gains_what_the_derivative_says():
    rng = np.random.default_rng(0)
    found, chance = rng.uniform(0.05, 0.95, (2, 200))
    step = 1e-7
    slope = (np.log((1 - step) * chance + step * found) - np.log(chance)) / step
    np.testing.assert_allclose(gain_by_a_part(np.log(found), np.log(chance)), slope, rtol=1e-5)


def test_sure_predictions_of_what_is_unrelated_gain_nothing():
    """Not so by log-probabilities, which are lower than those of chance by many errors."""
    rng = np.random.default_rng(0)
    chance, said = np.full(20_000, 0.7), rng.random(20_000) < 0.7
    surely = rng.random(20_000) < 0.5
    found, base = np.where(said == surely, 0.95, 0.05), np.where(said, chance, 1 - chance)
    gain = gain_by_a_part(np.log(found), np.log(base))
    assert abs(gain.mean()) < 2 * gain.std() / np.sqrt(len(gain))
    log_gain = np.log(found / base)
    assert log_gain.mean() < -20 * log_gain.std() / np.sqrt(len(gain))
