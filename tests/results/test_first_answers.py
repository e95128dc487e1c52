"""A fit without answers takes its first ones, and ends where a fit to all of them ends."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from pyro_crowdclust import CrowdData, fit, load
from pyro_crowdclust.annotators import LapsingWorkers, SortedPages, TwoCoin
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.interface import Choice, ChooseAgain, cluster
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.results import step_of
from pyro_crowdclust.simulation import simulate_pairs, simulate_placements
from pyro_crowdclust.training import Stopping

from ..interface.small_choices import small

TRUTH = np.arange(90) % 3
FEATURES = 2.5 * np.eye(3)[TRUTH] + np.random.default_rng(0).normal(size=(90, 3))
RATES = [0.95, 0.9, 0.9]
PAIRS = simulate_pairs(TRUTH, RATES, RATES, pairs_per_worker=80, seed=0)
PAGES = simulate_placements(TRUTH, RATES, pages_per_worker=4, page_size=8, seed=0)
OPTIONS = {"epochs": 200, "batch_size": None, "step_size": 0.5, "stopping": Stopping(1e-6)}
OPTIONS |= {"progress": False}
KINDS = [{"pairs": PAIRS}, {"placements": PAGES}]
SUPERVISION = [{}, {"known": {0: "a", 1: "b", 2: "c"}}, {"must_link": [(0, 3)]}]


def fixed(**answers):
    parts = {"components": GaussianComponents, "num_clusters": 5}
    return cluster(FEATURES, **answers, **parts, progress=False)


@pytest.mark.parametrize("supervision", SUPERVISION, ids=["alone", "known", "links"])
@pytest.mark.parametrize(
    "answers", [{"pairs": PAIRS}, {"placements": PAGES}], ids=["pairs", "pages"]
)
def test_a_given_mixture_goes_on_from_its_components(answers, supervision):
    updated = fixed(**supervision).update(**answers)
    fresh = fixed(**answers, **supervision)
    assert adjusted_rand_score(updated.assignments, TRUTH) > 0.8
    assert adjusted_rand_score(updated.assignments, fresh.assignments) > 0.9
    assert updated.elbo > fresh.elbo - 10
    name = "sensitivity" if "pairs" in answers else "accuracy"
    np.testing.assert_allclose(updated.workers[name], fresh.workers[name], atol=0.03)


@pytest.mark.long
@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ({"pairs": PAIRS}, TwoCoin),
        ({"pairs": PAIRS.assign(page=np.arange(len(PAIRS)) // 20)}, LapsingWorkers),
        ({"placements": PAGES}, SortedPages),
    ],
    ids=["pairs", "pages of pairs", "pages"],
)
def test_annotators_suit_the_answers_and_hear_of_more_workers_later(answers, kind, tmp_path):
    model = SemiCrowdsourcedMixture(DirichletWeights(3), GaussianComponents(3, 3), Identity())
    first = fit(model, MessagePassingGuide(model), CrowdData(FEATURES), **OPTIONS)
    first.save(tmp_path / "fit.safetensors")
    updated = load(tmp_path / "fit.safetensors", data=first.data).update(**answers)
    assert type(updated.model.annotators) is kind
    assert first.model.annotators is None
    assert adjusted_rand_score(updated.assignments, TRUTH) > 0.8
    more = {"left": [0], "right": [3], "worker": ["new"], "label": [1]}
    assert "new" in updated.update(more).workers.index


@pytest.fixture
def few_candidates(monkeypatch):
    def choice(data, num_clusters=None):
        return small(data, 3, forms=1)

    monkeypatch.setattr("pyro_crowdclust.interface.choosing.choice.choice_for", choice)
    return choice


@pytest.mark.long
@pytest.mark.parametrize("answers", KINDS, ids=["pairs", "pages"])
def test_the_first_answers_choose_as_a_first_call_does(answers, few_candidates, tmp_path):
    alone = few_candidates(CrowdData(FEATURES)).fit(num_starts=2, seed=3, progress=False)
    alone.save(tmp_path / "fit.safetensors")
    loaded = load(tmp_path / "fit.safetensors", data=alone.data)
    assert step_of(loaded, ChooseAgain)
    updated = loaded.update(**answers)
    fresh = few_candidates(CrowdData(FEATURES, **answers))
    fresh = fresh.fit(num_starts=2, seed=3, progress=False)
    np.testing.assert_array_equal(updated.probabilities, fresh.probabilities)
    assert updated.chosen.reason == fresh.chosen.reason
    assert step_of(updated, ChooseAgain).num_answers > 0
    with_more_items = alone.update(features=FEATURES[:3] + 0.1)
    assert step_of(with_more_items, ChooseAgain).seed == 3


@pytest.mark.long
def test_the_first_answers_keep_the_options_of_the_first_call(few_candidates, monkeypatch):
    alone = few_candidates(CrowdData(FEATURES)).fit(num_starts=1, epochs=2, progress=False)
    asked = {}

    def noted(choice, **options):
        asked.update(options)
        return alone

    monkeypatch.setattr(Choice, "fit", noted)
    alone.update(PAIRS, epochs=3)
    assert (asked["num_starts"], asked["epochs"], asked["seed"]) == (1, 3, 0)


@pytest.mark.long
def test_twice_as_many_answers_choose_again(few_candidates, tmp_path):
    half = PAIRS.head(len(PAIRS) // 2)
    first = few_candidates(CrowdData(FEATURES, half)).fit(num_starts=1, progress=False)
    first.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit", data=first.data)
    fresh = few_candidates(CrowdData(FEATURES, PAIRS)).fit(num_starts=1, progress=False)
    updated = loaded.update(PAIRS.iloc[len(half) :])
    assert updated.chosen.reason == fresh.chosen.reason
    np.testing.assert_array_equal(updated.probabilities, fresh.probabilities)
    on = first.update(PAIRS.iloc[len(half) : -1])
    assert on.chosen is first.chosen
    assert step_of(on, ChooseAgain).num_answers == len(half)
    assert step_of(updated, ChooseAgain).num_answers == len(PAIRS)
