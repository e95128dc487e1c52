"""A fit without answers takes its first ones, and ends where a fit to all of them ends."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from pyro_crowdclust import CrowdData, fit, load
from pyro_crowdclust.annotators import LapsingWorkers, SortedPages, TwoCoin
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.interface import ChoosingTraining, cluster
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.simulation import simulate_pairs, simulate_placements
from pyro_crowdclust.training import Stopping

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


@pytest.mark.long
@pytest.mark.parametrize(
    "answers", [{"pairs": PAIRS}, {"placements": PAGES}], ids=["pairs", "pages"]
)
def test_the_first_answers_choose_as_a_first_call_does(answers, tmp_path):
    alone = cluster(FEATURES, progress=False)
    assert isinstance(alone.train_on, ChoosingTraining)
    alone.save(tmp_path / "fit.safetensors")
    updated = load(tmp_path / "fit.safetensors", data=alone.data).update(**answers)
    fresh = cluster(FEATURES, **answers, progress=False)
    np.testing.assert_array_equal(updated.probabilities, fresh.probabilities)
    assert updated.chosen.reason == fresh.chosen.reason


@pytest.mark.long
def test_new_items_without_answers_keep_the_choice_open():
    alone = cluster(FEATURES, progress=False).update(features=FEATURES[:3])
    assert isinstance(alone.train_on, ChoosingTraining)
    assert alone.update(PAIRS).data.num_items == 93
