"""People who see finer kinds than the features show, and starts where nothing is finer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.interface import recipe
from pyro_crowdclust.interface.choosing import corrections
from pyro_crowdclust.interface.choosing.at_weights import AtWeights
from pyro_crowdclust.interface.choosing.clustering_search import Search
from pyro_crowdclust.interface.choosing.complete_fits import CompleteFit
from pyro_crowdclust.interface.choosing.decisions import Decision
from pyro_crowdclust.interface.choosing.reasons import FROM_DRAWS, with_reason
from pyro_crowdclust.interface.choosing.several_starts import better_from_draws
from pyro_crowdclust.interface.choosing.trials import Trial
from pyro_crowdclust.results import Chosen
from pyro_crowdclust.simulation import simulate_pairs
from pyro_crowdclust.starts import PrincipalComponentStart

from ..small_choices import small

SHOWN = np.arange(90) % 3
# Two kinds in each of three clouds, which the features do not tell apart.
SEEN = SHOWN + 3 * (np.arange(90) // 3 % 2)
CENTERS = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
FEATURES = CENTERS[SHOWN] + np.random.default_rng(1).normal(size=(90, 2))
RATES = [0.9, 0.85, 0.95, 0.8], [0.95, 0.9, 0.9, 0.95]


def data_of(kinds):
    return CrowdData(FEATURES, simulate_pairs(kinds, *RATES, pairs_per_worker=250, seed=4))


@pytest.fixture(scope="module")
def data():
    return data_of(SEEN)


@pytest.fixture(scope="module")
def coarse(data):
    """A fit with a component for each cloud."""
    form = small(data, 3, forms=1).forms[0]
    return form, form.recipe(data, 3).fit(seed=0, progress=False)


def test_a_start_at_draws_finds_kinds_that_features_do_not_show(data, coarse):
    form, fitted = coarse
    assert adjusted_rand_score(SEEN, fitted.assignments) < 0.7
    found = better_from_draws(fitted, form, data, 20, progress=False)
    assert found.elbo > fitted.elbo
    assert adjusted_rand_score(SEEN, found.assignments) > 0.9


def test_no_more_components_than_allowed(data, coarse):
    form, fitted = coarse
    six, any_number = (
        better_from_draws(fitted, form, data, most, progress=False) for most in (6, 20)
    )
    assert six.component_probabilities.shape[1] == 6 < any_number.component_probabilities.shape[1]
    # With as few there is no better fit.
    assert better_from_draws(fitted, form, data, 4, progress=False) is None


def test_nothing_takes_the_place_of_a_fit_with_the_clusters_that_people_see(coarse):
    form, _ = coarse
    data = data_of(SHOWN)
    fitted = form.recipe(data, 3).fit(seed=0, progress=False)
    assert adjusted_rand_score(SHOWN, fitted.assignments) == 1
    assert better_from_draws(fitted, form, data, 20, progress=False) is None


def test_answers_that_join_no_items(data, coarse):
    form, fitted = coarse
    alone = CrowdData(FEATURES, {"left": [0], "right": [1], "worker": ["a"], "label": [0]})
    assert better_from_draws(fitted, form, alone, 20, progress=False) is None


@pytest.mark.long
def test_the_choice_starts_at_draws_and_says_so(data):
    result = small(data, 3, 20, forms=1).fit(progress=False, num_starts=1)
    assert adjusted_rand_score(SEEN, result.assignments) > 0.9
    assert "a fit is kept that starts at these, with " in result.chosen.reason
    p = result.same_cluster_probability(np.array([0, 0, 0]), np.array([3, 6, 1]))
    np.testing.assert_allclose(p, [0, 1, 0], atol=0.1)


@pytest.mark.long
def test_a_start_at_draws_with_gaps_is_saved_and_goes_on(data, tmp_path):
    gaps = np.random.default_rng(0).random(FEATURES.shape) < 0.1
    rows = np.where(gaps, np.nan, FEATURES)
    data = data.with_parts(features=rows, num_missing=int(gaps.sum()))
    result = small(data, 3, 20, forms=1).fit(progress=False, num_starts=1)
    assert "a fit is kept that starts at these, with " in result.chosen.reason
    assert adjusted_rand_score(SEEN, result.assignments) > 0.8
    result.save(tmp_path / "fit")
    again = load(tmp_path / "fit", data=data)
    np.testing.assert_allclose(again.probabilities, result.probabilities, atol=1e-9)
    more = simulate_pairs(SEEN, *RATES, pairs_per_worker=20, seed=9)
    updated = again.update(more.assign(worker=more["worker"] + 4), epochs=5)
    assert adjusted_rand_score(SEEN, updated.assignments) > 0.8
    assert updated.data.num_workers == 8


@pytest.mark.long
def test_a_start_of_the_user_is_kept(data):
    result = small(data, 3, forms=1).fit(
        progress=False, num_starts=1, initialize=PrincipalComponentStart()
    )
    assert "starts at these" not in result.chosen.reason


@pytest.mark.long
def test_ctrl_c_while_starting_keeps_the_fit(data, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(corrections, "better_from_draws", interrupted)
    result = small(data, 3, 20, forms=1).fit(progress=False, num_starts=1)
    assert "interrupted" in result.stop_reason
    assert len(result.assignments) == 90


@pytest.mark.parametrize(("numbers", "calls"), [(10**6, 1), (100, 0)])
def test_fits_in_minibatches_do_not_start_at_draws(data, coarse, monkeypatch, numbers, calls):
    """The search has fitted few items; several fits to all of very many would take minutes."""
    called = []
    monkeypatch.setattr(recipe, "FULL_BATCH_NUMBERS", numbers)
    monkeypatch.setattr(corrections, "drawn_explanation", lambda fitted, _: fitted)
    monkeypatch.setattr(corrections, "is_doubtful", lambda *_: True)
    monkeypatch.setattr(corrections, "is_explained_worse", lambda *_: True)
    monkeypatch.setattr(corrections, "with_rates_of_draws", lambda fitted, _: fitted)
    monkeypatch.setattr(corrections, "better_from_draws", lambda *_, **__: called.append(1))
    form, fitted = coarse
    best = Trial(form, 3, 0.0, AtWeights(np.zeros((1, 1))), 3, 0.0)
    search, own = Search(small(data, 3, forms=1), 0, False), form.recipe(data, 3)
    complete = CompleteFit(search, Decision(best, ""), own, range(1), {}, fitted, fitted, fitted)
    found = corrections.explained_by_draws(complete)
    assert found.fitted is fitted
    assert len(called) == calls


def test_a_reason_says_once_that_partitions_explain_the_answers_better(data, coarse, monkeypatch):
    """Also where a fit from these explains them no better."""

    def started(found):
        chosen = with_reason(found.fitted.chosen, FROM_DRAWS.format("4 components"))
        return replace(found, fitted=replace(found.fitted, chosen=chosen))

    for name in ("drawn_explanation", "is_doubtful", "is_explained_worse"):
        monkeypatch.setattr(corrections, name, lambda *_: True)
    monkeypatch.setattr(corrections, "with_rates_of_draws", lambda fitted, _: replace(fitted))
    form, fitted = coarse
    fitted = replace(fitted, chosen=Chosen(pd.DataFrame(), "best"))
    best = Trial(form, 3, 0.0, AtWeights(np.zeros((1, 1))), 3, 0.0)
    search, own = Search(small(data, 3, forms=1), 0, False), form.recipe(data, 3)
    complete = CompleteFit(search, Decision(best, ""), own, range(1), {}, fitted, fitted, fitted)
    for start, end in ((started, "too, so the rates"), (lambda found: None, "so the rates of wor")):
        monkeypatch.setattr(corrections, "_started_at_draws", start)
        reason = corrections.explained_by_draws(complete).fitted.chosen.reason
        assert reason.count("partitions found from the answers alone") == 1
        assert end in reason
