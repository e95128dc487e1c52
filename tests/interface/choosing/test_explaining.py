"""Whether clusters explain the answers, against integrals, sums over partitions and true rates."""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, fit, load
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.data import some_items, without_features
from pyro_crowdclust.guides import PairRegressionGuide, drawn_partitions
from pyro_crowdclust.inference.answer_evidence import explains, log_evidence_bound
from pyro_crowdclust.interface import ExplainAnswers, advice
from pyro_crowdclust.interface.choosing import explaining
from pyro_crowdclust.interface.choosing.explaining import with_answers_explained
from pyro_crowdclust.interface.choosing.rereading import tempered_fit, with_answers_added
from pyro_crowdclust.minibatches import answered_batch, items_alone
from pyro_crowdclust.mixture import SoftmaxRegression
from pyro_crowdclust.models import PairRegression
from pyro_crowdclust.results import step_of
from pyro_crowdclust.simulation import simulate_pairs

from ..small_choices import small

NUM_ITEMS, ASKED = 90, 40
SHOWN = np.arange(NUM_ITEMS) % 2
# What people see, of which the features show nothing.
SEEN = np.arange(NUM_ITEMS) // 2 % 3
FEATURES = 6.0 * SHOWN[:, None] + np.random.default_rng(0).normal(size=(NUM_ITEMS, 2))
RATES = np.random.default_rng(1).uniform(0.8, 0.95, (2, 8))


@pytest.fixture(scope="module")
def silent():
    """A fit of the features, whose updates do not choose again."""
    fitted = small(CrowdData(FEATURES), 2, forms=1).fit(num_starts=1, progress=False)
    return replace(fitted, train_on=replace(fitted.train_on, steps=()))


def said_of(kinds, pairs_per_worker=60):
    return simulate_pairs(
        kinds, *RATES, pairs_per_worker=pairs_per_worker, items=range(ASKED), seed=2
    )


@pytest.fixture(scope="module")
def misled(silent):
    """Workers are judged by clusters that are not what they see."""
    return with_answers_added(silent, CrowdData(FEATURES, said_of(SEEN)), 0.15)


@pytest.fixture(scope="module")
def mended(misled):
    return with_answers_explained(misled)


def covered(workers):
    """The share of the rates that lie in their intervals."""
    true = RATES[:, np.arange(len(workers)) % RATES.shape[1]]
    inside = [
        (workers[f"{name}_lower"] <= rates) & (rates <= workers[f"{name}_upper"])
        for name, rates in zip(("sensitivity", "specificity"), true, strict=True)
    ]
    return np.mean(inside)


def test_the_partition_that_people_see_explains_what_they_say():
    data = CrowdData(None, said_of(SEEN))
    draws = drawn_partitions(without_features(data), seed=0).guide.partition_draws()
    items = data.item_ids.to_numpy()
    annotators = TwoCoin(data.num_workers)
    assert explains(torch.as_tensor(SEEN[items]), draws, annotators, data.answers)
    assert not explains(torch.as_tensor(SHOWN[items]), draws, annotators, data.answers)


def test_clusters_that_people_see_are_left_as_they_are(silent):
    heard = with_answers_added(silent, CrowdData(FEATURES, said_of(SHOWN)), 0.5)
    assert with_answers_explained(heard) is heard


def test_who_is_not_blamed_is_judged_by_the_fit(misled, monkeypatch):
    """Whatever the draws explain."""
    monkeypatch.setattr(explaining, "_MIN_RATIO", 0.0)
    assert with_answers_explained(misled) is misled


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 1])
def test_guesses_are_explained_by_no_partition(silent, share):
    """Draws explain them as they explain all noise, and so workers were believed, and items moved.

    That all pairs are alike explains one word whatever the pair, by everybody, better still.
    """
    said = said_of(SEEN)
    guesses = np.random.default_rng(3).random(len(said)) < share
    heard = with_answers_added(silent, CrowdData(FEATURES, said.assign(label=1 * guesses)))
    assert with_answers_explained(heard) is heard
    np.testing.assert_array_equal(heard.assignments, silent.assignments)


def test_workers_are_not_blamed_for_what_features_do_not_show(misled, mended):
    assert covered(misled.workers) < 0.6
    assert covered(mended.workers) >= 0.8
    assert (mended.workers["weight"] > 1).all()
    assert mended.model.feature_weight <= 0.15


def test_rates_have_the_moments_of_the_draws(misled):
    asked = some_items(misled.data, misled.data.answers.items.unique())
    drawn = drawn_partitions(without_features(asked), seed=misled.seed).workers
    found = with_answers_explained(misled).workers
    for column in ("sensitivity", "sensitivity_sd", "specificity", "specificity_sd"):
        np.testing.assert_allclose(found[column], drawn[column], rtol=1e-9)


def test_a_bound_on_what_answers_say(silent):
    """Against the sum over all partitions of six items, at expected rates."""
    said = {"left": [0, 1, 2, 3, 4, 0], "right": [1, 2, 3, 4, 5, 5], "worker": [0, 1] * 3}
    data = CrowdData(FEATURES, said | {"label": [1, 0, 1, 0, 1, 1]})
    read = tempered_fit(with_answers_added(silent, data), 0.05)
    prior = read.component_probabilities_by_features[:6].log().numpy()
    rates = {name: read.guide.posteriors[name].mean() for name in ("sensitivity", "specificity")}
    answers, terms = data.answers, []
    for z in itertools.product(range(prior.shape[1]), repeat=6):
        labels = torch.tensor(z)
        same = (labels[answers.left] == labels[answers.right]).double()
        of_answers = read.model.annotators.answer(same, rates, answers.worker)
        said_so = float(of_answers.log_prob(answers.label.double()).sum())
        terms.append(prior[range(6), z].sum() + said_so)
    exact = np.logaddexp.reduce(terms)
    answered = answered_batch(data)
    alone = items_alone(data, answered.items)
    bound = log_evidence_bound(read.guide, read.model.annotators, alone, answered)
    assert exact - 0.5 < bound <= exact + 1e-9


@pytest.mark.long
def test_updates_are_judged_anew_and_files_hold_how(mended, tmp_path):
    assert step_of(mended, ExplainAnswers)
    mended.save(tmp_path / "fit")
    again = load(tmp_path / "fit", data=mended.data)
    np.testing.assert_allclose(again.probabilities, mended.probabilities, atol=1e-6)
    more = simulate_pairs(SEEN, *RATES, pairs_per_worker=30, items=range(ASKED), seed=5)
    more["worker"] += 8
    for result in (mended, again):
        updated = result.update(more, epochs=3)
        assert covered(updated.workers) >= 0.75
        assert step_of(updated, ExplainAnswers)


def test_rows_with_gaps_are_read_anew():
    features = np.where(np.random.default_rng(4).random(FEATURES.shape) < 0.1, np.nan, FEATURES)
    silent = small(CrowdData(features), 2, forms=1).fit(num_starts=1, progress=False)
    result = with_answers_explained(
        with_answers_added(silent, CrowdData(features, said_of(SEEN)), 0.15)
    )
    assert step_of(result, ExplainAnswers)
    assert covered(result.workers) >= 0.8


def test_a_regression_is_read_anew_and_goes_on(monkeypatch, tmp_path):
    """Whatever its clusters explain, so that it is."""
    monkeypatch.setattr(explaining, "_MIN_RATIO", math.inf)
    monkeypatch.setattr(explaining, "explains", lambda *_: False)
    data = CrowdData(FEATURES, said_of(SEEN))
    model = PairRegression(SoftmaxRegression(3, 2), TwoCoin(8))
    options = {"batch_size": None, "dtype": torch.float64, "progress": False}
    fitted = fit(model, PairRegressionGuide(model), data, epochs=20, **options)
    read = with_answers_explained(fitted)
    assert read.guide.feature_weight <= fitted.guide.feature_weight
    assert covered(read.workers) >= 0.8
    read.save(tmp_path / "fit")
    again = load(tmp_path / "fit", data=data)
    np.testing.assert_allclose(again.probabilities, read.probabilities, atol=1e-9)
    more = simulate_pairs(SEEN, *RATES, pairs_per_worker=30, items=range(ASKED), seed=5)
    more["worker"] += 8
    updated = again.update(more, epochs=3)
    assert step_of(updated, ExplainAnswers)
    assert updated.guide.feature_weight <= read.guide.feature_weight


def test_the_choice_says_so():
    result = small(CrowdData(FEATURES, said_of(SEEN, 30)), 2, forms=1).fit(progress=False)
    assert "explain the answers worse than partitions" in result.chosen.reason
    assert covered(result.workers) >= 0.8
    tried = result.chosen.table
    more = pd.concat([tried, tried.assign(components=4, chosen=False)])
    chosen = dataclasses.replace(result.chosen, table=more, most_components=4)
    (found,) = advice(dataclasses.replace(result, chosen=chosen))
    assert found.startswith("partitions found from the answers alone explain the answers better")
