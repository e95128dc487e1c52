"""Another number of components that describes features as well is named if clusters differ."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_iris
from torch import nn

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.interface import cluster
from pyro_crowdclust.interface.choosing.clustering_search import Search
from pyro_crowdclust.interface.choosing.other_numbers import (
    about_other_numbers,
    division,
    doubt_by_other_numbers,
)
from pyro_crowdclust.interface.choosing.ranking import Ranking
from pyro_crowdclust.interface.choosing.trials import Trial

from ..small_choices import small, two_groups

HALVES, QUARTERS = np.arange(80) % 2, np.arange(80) % 4
# Of a standard error of .1 between any two trials.
ITEMS = np.random.default_rng(0).permutation(np.repeat([-1.0, 1.0], 40)) * np.sqrt(79 / 80)


def searched(*tried, of_features=True):
    """A search with trials of these numbers of components, ELBOs and clusters of the items."""
    form = SimpleNamespace()
    by_item = [ITEMS * 0.1 * np.sqrt(80) * place for place in range(len(tried))]
    trials = [
        Trial(form, number, elbo, None, number, 0.0, items)
        for (number, elbo, _), items in zip(tried, by_item, strict=True)
    ]
    fits = [
        SimpleNamespace(component_probabilities=nn.functional.one_hot(torch.tensor(clusters)) * 1.0)
        for _, _, clusters in tried
    ]
    candidates = SimpleNamespace(
        are_of_features=of_features,
        ranking=Ranking([], 80),
        trials=trials,
        data=SimpleNamespace(item_ids=np.arange(80)),
        known_fit=lambda form, number: fits[[one.num_components for one in trials].index(number)],
    )
    return SimpleNamespace(candidates=candidates), trials[0]


def result_of(clusters):
    data = SimpleNamespace(item_positions=torch.from_numpy)
    q = nn.functional.one_hot(torch.from_numpy(clusters)).double()
    return SimpleNamespace(assignments=clusters, data=data, component_probabilities=q, owners=None)


@pytest.mark.parametrize(("loss", "is_named"), [(2.9, True), (3.1, False)])
def test_a_number_that_divides_a_cluster_at_an_elbo_within_three_nats(loss, is_named):
    search, best = searched((2, -1.0, HALVES), (4, -1.0 - loss / 80, QUARTERS))
    said = about_other_numbers(search, best, result_of(HALVES))
    assert said == is_named * (
        "4 components describe the features about as well, but divide cluster 0, with 20 and 20 "
        "of its 40 items in the largest parts"
    )


def test_of_several_numbers_the_likeliest_that_divides():
    finer = np.arange(80) % 8
    tried = (2, -1.05, HALVES), (1, -1.03, 0 * HALVES), (8, -1.01, finer), (4, -1.0, QUARTERS)
    search, best = searched(*tried)
    assert about_other_numbers(search, best, result_of(HALVES)).startswith("4 components describe")


def test_nothing_is_said_where_answers_decide():
    search, best = searched((2, -1.0, HALVES), (4, -1.0, QUARTERS), of_features=False)
    assert about_other_numbers(search, best, result_of(HALVES)) == ""


def test_nothing_is_said_where_fewer_components_suffice_as_no_mixture_is_right():
    for elbo, is_said in ((-1.09, True), (-1.11, False)):
        search, best = searched((2, elbo, HALVES), (4, -1.0, QUARTERS))
        assert bool(about_other_numbers(search, best, result_of(HALVES))) is is_said


def test_parts_of_few_items_do_not_count():
    assert division(HALVES, np.where(np.arange(80) < 14, HALVES + 2, HALVES)) == ""
    assert division(QUARTERS, HALVES) == ""
    assert division(HALVES, 0 * HALVES) == ""


@pytest.mark.parametrize(("loss", "together"), [(0.19, 0.75), (0.21, 1.0)])
def test_numbers_within_two_standard_errors_cast_doubt(loss, together):
    """Four components divide each of the two clusters, one would join them."""
    tried = (2, -1.0, HALVES), (4, -1.0 - loss, QUARTERS), (1, -2.0, 0 * HALVES)
    search, best = searched(*tried)
    doubt = doubt_by_other_numbers(search, best, result_of(HALVES))
    np.testing.assert_allclose(doubt.together, together * np.eye(2))
    np.testing.assert_allclose(doubt.whole, together)


def test_the_chosen_number_counts_however_far_it_is_from_the_largest_elbo():
    search, best = searched((2, -1.5, HALVES), (4, -1.0, QUARTERS))
    doubt = doubt_by_other_numbers(search, best, result_of(HALVES))
    np.testing.assert_allclose(doubt.together, 0.75 * np.eye(2))


def test_answers_decide_without_doubt():
    search, best = searched((2, -1.0, HALVES), (4, -1.0, QUARTERS), of_features=False)
    assert doubt_by_other_numbers(search, best, result_of(HALVES)) is None


def test_a_choice_says_so_and_a_file_holds_it(tmp_path):
    """Two groups that are far apart are two whatever the number of components."""
    choice = replace(small(CrowdData(two_groups(200)), 1, 2, 3, forms=1), first_size=3)
    result = choice.fit(num_starts=1, progress=False)
    assert result.chosen.other_number == ""
    assert result.doubt.together[0, 0] > 0.3
    said = replace(result.chosen, other_number="3 components describe the features about as well")
    replace(result, chosen=said).save(tmp_path / "fit")
    assert load(tmp_path / "fit").chosen.other_number == said.other_number


def test_a_search_is_asked_once(monkeypatch):
    """Whatever the clusters are."""
    asked = []

    def about(search, best, result):
        asked.append((type(search), best.num_components))
        return "as well"

    monkeypatch.setattr("pyro_crowdclust.interface.choosing.choice.about_other_numbers", about)
    choice = small(CrowdData(two_groups()), 2, forms=1)
    assert choice.fit(num_starts=1, progress=False).chosen.other_number == "as well"
    assert asked == [(Search, 2)]


@pytest.mark.long
def test_two_species_that_a_random_category_joins_are_not_surely_one():
    """Two clusters have nearly the same ELBO as three."""
    features, species = load_iris(return_X_y=True, as_frame=True)
    rng = np.random.default_rng(0)
    features["Region"] = pd.Series(rng.choice(["S", "N", "O"], 150)).mask(rng.random(150) < 0.2)
    result = cluster(features, progress=False)
    assert len(np.unique(result.assignments)) == 2
    alone = species.to_numpy() == 0
    assert result.assignment_probabilities[alone].min() > 0.95
    assert result.assignment_probabilities[~alone].max() < 0.8
    left, right = np.triu_indices(150, 1)
    same = result.same_cluster_by_position(left, right)
    is_open = ~alone[left] & ~alone[right]
    assert same[is_open].min() > 0.3
    assert same[is_open].max() < 0.8
    assert ((same < 0.01) | (same > 0.95))[~is_open].mean() > 0.98
