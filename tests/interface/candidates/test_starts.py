"""Starts from numbers alone, whatever kinds of items there are, and from known labels."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import choice_for
from pyro_crowdclust.interface.candidates.starts import (
    other_starts,
    starts_at_labels,
    starts_of_numbers,
)
from pyro_crowdclust.interface.choosing import several_starts, trying
from pyro_crowdclust.interface.choosing.trying import Candidates
from pyro_crowdclust.starts import PartitionStart

RNG = np.random.default_rng(3)
CLUSTER = RNG.choice(3, 300, p=[0.6, 0.3, 0.1])
NUMBERS = pd.DataFrame(
    {
        "a": RNG.normal(10 * CLUSTER, 4),
        "b": RNG.normal(CLUSTER, 0.5),
        "c": RNG.normal(CLUSTER, 0.6),
    }
)
COIN = RNG.random(300) < 0.5
TABLES = {
    "yes or no": NUMBERS.assign(coin=COIN),
    "categories": NUMBERS.assign(kind=RNG.choice(["x", "y", "z"], 300)),
    "array": NUMBERS.assign(coin=COIN).to_numpy(float),
    "gaps": NUMBERS.assign(coin=np.where(RNG.random(300) < 0.1, np.nan, COIN)).to_numpy(float),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_it_is_k_means_of_the_numbers_alone(table):
    data = CrowdData(table)
    recipe = choice_for(data).forms[0].recipe(data, 3)
    (start,) = starts_of_numbers(recipe, data)
    rows = recipe.data.rows(torch.arange(300)).double()
    generator = torch.Generator().manual_seed(0)
    found = start.partition(rows, 3, generator).argmax(1)
    seed = int(torch.randint(2**31, (), generator=generator.manual_seed(0)))
    expected = KMeans(3, n_init=10, random_state=seed).fit_predict(NUMBERS / NUMBERS.std())
    assert adjusted_rand_score(expected, found) > 0.98  # numbers are spread over their step


def test_a_coin_parts_no_cluster():
    """The fit is as good as one that begins at the truth, and so is what the search sees of it."""
    data = CrowdData(TABLES["yes or no"])
    choice = choice_for(data)
    form = choice.forms[1]
    choice = dataclasses.replace(choice, forms=(form,), sizes=[3], first_size=3)
    recipe = form.recipe(data, 3)
    best = recipe.fit(progress=False, initialize=PartitionStart(CLUSTER)).elbo
    assert best - recipe.fit(progress=False).elbo > 20
    found = choice.fit(num_starts=1, progress=False)
    assert found.elbo == pytest.approx(best, abs=0.1)
    assert adjusted_rand_score(CLUSTER, found.assignments) > 0.8
    tried = Candidates(choice, 0, progress=False).fit_of(form, 3, data)
    assert tried.elbo == pytest.approx(best, abs=0.5)


@pytest.mark.parametrize("name", ["yes or no", "array"])
def test_search_and_complete_fit_have_the_same_starts(name, monkeypatch):
    """The numbers of an array are spread over their step, and yes and no have one there, too."""
    counts = {trying: [], several_starts: []}
    for module, found in counts.items():
        best = module.best_first

        def counted(attempts, found=found, best=best):
            attempts = list(attempts)
            found.append(len(attempts))
            return best(attempts)

        monkeypatch.setattr(module, "best_first", counted)
    choice = choice_for(CrowdData(TABLES[name]))
    choice = dataclasses.replace(choice, forms=choice.forms[1:2], sizes=[3], first_size=3)
    choice.fit(num_starts=1, progress=False)
    assert set(counts[trying]) == {2}
    assert counts[several_starts] == [3]  # one more is where the search ended


@pytest.mark.parametrize(
    "data",
    [
        CrowdData(NUMBERS),
        CrowdData(NUMBERS.gt(NUMBERS.mean())),
        CrowdData(TABLES["yes or no"], known=np.where(np.arange(300) < 9, CLUSTER, -1)),
    ],
    ids=["numbers", "yes or no", "labels"],
)
def test_none_where_nothing_is_left_out_or_something_is_said(data):
    form = choice_for(data).forms[0]
    assert starts_of_numbers(form.recipe(data, 3), data) == []


LABELS = {item: f"kind {CLUSTER[item]}" for item in range(12)}


def test_labels_alone_have_a_start():
    data = CrowdData(NUMBERS, known=LABELS)
    recipe = choice_for(data).forms[0].recipe(data, 3)
    assert len(starts_at_labels(recipe, data)) == 1
    assert other_starts(recipe, data) == starts_at_labels(recipe, data)


@pytest.mark.parametrize(
    ("others", "components"),
    [
        ({}, 3),
        ({"known": LABELS, "must_link": [(0, 20)]}, 3),
        ({"known": dict.fromkeys(range(9), "one")}, 1),
    ],
    ids=["no labels", "links", "one component"],
)
def test_no_start_at_labels(others, components):
    data = CrowdData(NUMBERS, **others)
    recipe = choice_for(data).forms[0].recipe(data, components)
    assert starts_at_labels(recipe, data) == []
