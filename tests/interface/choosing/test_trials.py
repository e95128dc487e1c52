"""When one prediction of held-out answers is better than another."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats

from pyro_crowdclust.interface.candidates.forms import ANSWERS, Form
from pyro_crowdclust.interface.candidates.weights import REGRESSION_WEIGHTS, WEIGHTS, weights_for
from pyro_crowdclust.interface.choosing.at_weights import AtWeights
from pyro_crowdclust.interface.choosing.trials import Trial, elbo_error


@pytest.fixture(autouse=True, scope="module")
def _short_searches(_few_draws):
    """Not here, where which trial is better is what is tested."""


MIXTURE = Form("columns", "full Gaussians", None, None)


def trial(answers: np.ndarray | None = None, by_item: np.ndarray | None = None) -> Trial:
    by_weight = None if answers is None else AtWeights(answers)
    return Trial(MIXTURE, 3, -7.0, by_weight, 3, 0.1, by_item)


def test_held_out_answers_are_predicted_with_features_of_the_best_weight():
    by_weight = np.log([[0.5, 0.1, 0.4], [0.5, 0.3, 0.4], [0.9, 0.05, 0.4]])
    found = trial(by_weight)
    assert found.feature_weight == WEIGHTS[1]
    np.testing.assert_array_equal(found.log_probabilities, by_weight[1])
    assert found.score == pytest.approx(np.log(0.5 * 0.3 * 0.4) / 3)
    regression = dataclasses.replace(found, form=dataclasses.replace(MIXTURE, of_features=False))
    assert regression.feature_weight == REGRESSION_WEIGHTS[1]
    assert weights_for(ANSWERS) == (1,)  # which has no features
    alone = trial()
    assert (alone.feature_weight, alone.score) == (1.0, -7.0)
    assert not len(alone.log_probabilities)


def test_pairs_on_pages_choose_the_weight_at_which_placements_are_scored():
    answers = np.log([[0.9, 0.9], [0.5, 0.4]])
    first = AtWeights(answers, np.log([[0.2, 0.1, 0.1], [0.7, 0.3, 0.6]]))
    found = dataclasses.replace(trial(), by_weight=first)
    assert found.feature_weight == WEIGHTS[1]
    np.testing.assert_array_equal(found.log_probabilities, answers[1])
    surer = AtWeights(answers, np.log([[0.99] * 3, [1e-9] * 3]))
    assert AtWeights.of_all([first, surer]).best == 0
    assert AtWeights.of_all([AtWeights(answers)] * 2).together is None


def test_the_error_of_a_difference_of_elbos_is_that_of_a_mean_over_items():
    one, other = np.random.default_rng(0).normal(size=(2, 50))
    found = elbo_error(trial(by_item=one), trial(by_item=other))
    assert found == pytest.approx(stats.sem(one - other, ddof=0))
    assert elbo_error(trial(by_item=one), trial()) == elbo_error(trial(), trial(by_item=one)) == 0.0
