"""When one prediction of held-out answers is better than another."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from pyro_crowdclust.interface.candidates.forms import ANSWERS, Form
from pyro_crowdclust.interface.choosing.trials import (
    SHARPNESS,
    WEIGHTS,
    Trial,
    dyadic_error,
    elbo_error,
    error_of,
    gain_by_a_part,
    is_clear,
    log_orders,
    weights_for,
)


@pytest.fixture(autouse=True, scope="module")
def _short_searches(_few_draws):
    """Not here, where which trial is better is what is tested."""


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


@pytest.mark.parametrize("used", [1, 2, 3, 4])
def test_an_elbo_gains_from_every_order_that_is_another_posterior(used):
    q = torch.eye(4)[torch.arange(8) % used]
    orders = {tuple(q[:, order].flatten().tolist()) for order in itertools.permutations(range(4))}
    assert log_orders(q) == pytest.approx(math.log(len(orders)))


MIXTURE = Form("columns", "full Gaussians", None, None)


def trial(by_weight: np.ndarray | None = None, by_item: np.ndarray | None = None) -> Trial:
    return Trial(MIXTURE, 3, -7.0, by_weight, 3, 0.1, by_item)


def test_held_out_answers_are_predicted_with_features_of_the_best_weight():
    by_weight = np.log([[0.5, 0.1, 0.4], [0.5, 0.3, 0.4], [0.9, 0.05, 0.4]])
    found = trial(by_weight)
    assert found.feature_weight == WEIGHTS[1]
    np.testing.assert_array_equal(found.held_out, by_weight[1])
    assert found.score == pytest.approx(np.log(0.5 * 0.3 * 0.4) / 3)
    regression = dataclasses.replace(found, form=dataclasses.replace(MIXTURE, of_features=False))
    assert regression.feature_weight == SHARPNESS[1]
    assert weights_for(ANSWERS) == (1,)  # which has no features
    alone = trial()
    assert (alone.feature_weight, alone.held_out, alone.score) == (1.0, None, -7.0)
    assert not len(alone.answers)


def test_the_error_of_a_difference_of_elbos_is_that_of_a_mean_over_items():
    one, other = np.random.default_rng(0).normal(size=(2, 50))
    found = elbo_error(trial(by_item=one), trial(by_item=other))
    assert found == pytest.approx(stats.sem(one - other, ddof=0))
    assert elbo_error(trial(by_item=one), trial()) == elbo_error(trial(), trial(by_item=one)) == 0.0
