"""The forms that suit a table."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import choice_for
from pyro_crowdclust.interface.candidates.forms import REGRESSION
from pyro_crowdclust.interface.candidates.suited_forms import forms_for

from ..small_choices import (
    two_rings,
)


def test_a_table_without_numbers_has_one_form():
    table = pd.DataFrame({"smokes": [True, False] * 10, "hair": ["red", "fair", "dark", "red"] * 5})
    assert [form.kind for form in choice_for(CrowdData(table)).forms] == ["independent columns"]


def test_many_columns_are_projected():
    wide = CrowdData(np.random.default_rng(0).normal(size=(60, 90)))
    names = [form.features for form in choice_for(wide).forms]
    assert all("directions" in name for name in names)
    recipe = choice_for(wide).forms[0].recipe(wide, 3)
    assert recipe.model.components.num_features == 10


def test_columns_that_never_vary_are_left_out():
    features, _ = two_rings(60)
    data = CrowdData(np.column_stack([features, np.ones(60), np.full(60, 1e6)]))
    for form in choice_for(data).forms:
        emission = form.make_coordinates(data)
        points = emission.latent(torch.as_tensor(data.features))
        assert points.shape == (60, 2)
        np.testing.assert_allclose(emission.features(points), data.features, rtol=1e-9)


def test_heavy_tails_are_of_real_columns():
    features, _ = two_rings(60)
    features[0] = 1e6
    choice = choice_for(CrowdData(features))
    tails = [form for form in choice.forms if "Student" in form.kind]
    kinds = ["diagonal Student's t", "full Student's t"]
    assert [form.kind for form in tails] == 2 * kinds
    assert [form.features for form in tails] == 2 * ["columns"] + 2 * ["powers"]
    points = tails[0].make_coordinates(choice.data).latent(torch.as_tensor(features))
    # Units are those of the other items.
    assert 0.5 < points[1:].std(0).min() < points[1:].std(0).max() < 2
    counted = pd.DataFrame(features).assign(smokes=[True, False] * 30)
    kinds = [form.kind for form in choice_for(CrowdData(counted)).forms]
    assert not any("Student" in kind for kind in kinds)


def test_many_columns_of_many_items_have_no_full_covariances_with_heavy_tails():
    rng = np.random.default_rng(0)
    few, many = (
        {form.kind for form in choice_for(CrowdData(rng.normal(size=(number, 25)))).forms}
        for number in (100, 2000)
    )
    assert few - many == {"full Student's t"}


@pytest.mark.parametrize("far", [0.0, 1e6], ids=["regular", "deviating"])
def test_forms_made_twice_are_equal(far):
    features, _ = two_rings(60)
    features[0] += far
    first, second = (forms_for(answered(features)) for _ in range(2))
    assert first == second
    assert len({form.name for form in first}) == len(set(first)) == len(first)
    bounded = dataclasses.replace(first[0], max_clusters=3)
    assert bounded == first[0] != first[1]


def answered(features):
    """A table and a few answers."""
    ends = np.arange(len(features)).reshape(2, -1)
    pairs = pd.DataFrame({"left": ends[0], "right": ends[1], "worker": 0, "label": ends[0] % 2})
    return CrowdData(features, pairs)


def regressions(data):
    return {form.features: form for form in choice_for(data).forms if form.kind == REGRESSION}


def mixed(num_real, num_items=60):
    """Real columns that depend on each other, a count, a yes and no, and a category."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(num_items, 8)) @ rng.normal(size=(8, num_real)))
    table.columns = [f"wave {place}" for place in range(num_real)]
    table["visits"], table["smokes"] = rng.poisson(2, num_items), rng.random(num_items) < 0.5
    return table.assign(hair=rng.choice(["dark", "fair", "red"], num_items))


@pytest.mark.parametrize("num_columns", [3, 90])
def test_scores_of_a_regression_deviate_by_two_in_any_units(num_columns):
    """Directions beside a long first one are short in its units, and would count for nothing."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(80, num_columns)) + 30 * rng.normal(size=(80, 1))
    data = answered(features)
    assert regressions(data)
    for form in regressions(data).values():
        model = form.recipe(data, 4).model
        points = model.emission.latent(torch.as_tensor(features))
        weights = model.regression.precision()[:-1].rsqrt().detach()
        drawn = torch.randn(4000, len(weights), dtype=torch.float64) * weights
        scores = (points - points.mean(0)) @ drawn.mT
        assert scores.square().mean().sqrt() == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("number", [20, 40])
def test_directions_of_many_columns_have_a_regression_in_their_own_units(number):
    features = np.random.default_rng(0).normal(size=(80, 90)) * np.logspace(0, 3, 90)
    data = answered(features)
    form = regressions(data)[f"{number} directions, own units"]
    points = form.make_coordinates(data).latent(torch.as_tensor(features))
    np.testing.assert_allclose(points.var(0).numpy(), np.ones(number), rtol=1e-9)


def test_columns_of_several_kinds_have_a_regression_on_all():
    data = answered(mixed(3))
    form = regressions(data)["columns"]
    points = form.make_coordinates(data).latent(data.rows(torch.arange(60)))
    assert points.shape == (60, 3 + 2 + 3)
    np.testing.assert_allclose(points[:, :5].std(0, correction=0).numpy(), np.ones(5), rtol=1e-9)
    np.testing.assert_array_equal(points[:, 5:].sum(1).numpy(), np.ones(60))
    assert not regressions(CrowdData(mixed(3)))  # without answers


def test_a_regression_on_columns_of_several_kinds_predicts_items_with_gaps():
    data = answered(mixed(3))
    result = regressions(data)["columns"].recipe(data, 2).fit(progress=False, epochs=3)
    item = mixed(3)[:1].astype({"visits": float})
    item["wave 1"] = item["visits"] = np.nan
    assert np.isfinite(result.predict_proba(item)).all()


@pytest.mark.long
@pytest.mark.parametrize(("num_columns", "number"), [(3, 2), (60, 3)])
def test_regressions_on_whole_rows_predict_items_with_gaps(num_columns, number):
    """As mixtures do, so that what a first call ends in is no matter."""
    features = np.random.default_rng(0).normal(size=(80, num_columns))
    features[::3, 1] = 0.0  # an atom, where columns are few
    data, item = answered(features), features[:1].copy()
    item[0, :2] = np.nan
    forms = regressions(data)
    assert len(forms) == number
    for form in forms.values():
        recipe = form.recipe(data, 2)
        assert recipe.model.takes_gaps
        result = recipe.fit(progress=False, epochs=2)
        assert np.isfinite(result.predict_proba(item)).all()
        of_mean = recipe.model.emission.latent(torch.from_numpy(np.full_like(item, np.nan)))
        middle = recipe.model.emission.latent(torch.from_numpy(features)).mean(0)
        np.testing.assert_allclose(of_mean[0], middle, atol=1e-9)


def test_gaps_are_what_the_others_let_expect_of_a_regression():
    whole = mixed(12)
    table = whole.copy()
    table.loc[:19, "wave 1"] = table.loc[0, "hair"] = None
    data = answered(table)
    (form,) = regressions(data).values()
    recipe = form.recipe(data, 2)
    emission = recipe.model.emission
    points = emission.latent(data.rows(torch.arange(60)))
    assert points.isfinite().all()
    there = emission.latent(answered(whole).rows(torch.arange(60)))
    error = (points[:20, 1] - there[:20, 1]).square().mean()
    assert error < 0.2 * there[:20, 1].square().mean()
    assert recipe.model.takes_gaps
    assert np.isfinite(recipe.fit(progress=False, epochs=3).probabilities).all()


def test_many_columns_with_gaps_are_projected_and_others_stand_beside():
    table = mixed(60)
    table.loc[0, "wave 1"] = table.loc[1, "hair"] = None
    data = answered(table)
    (regression,) = regressions(data).values()
    assert regression.recipe(data, 2).model.takes_gaps
    mixtures = [form for form in choice_for(data).forms if form.of_features]
    assert all("directions" in form.features for form in mixtures)
    model = mixtures[0].recipe(data, 3).model
    assert model.takes_gaps
    points = model.emission.latent(data.rows(torch.arange(60)))
    number = len(model.emission.directions)
    assert points.shape == (60, number + 3)
    assert points[:, :number].isfinite().all()
    assert bool(points[1, number + 2].isnan())
    kinds = [type(part).__name__.removesuffix("Components") for part in model.components.parts]
    assert kinds == ["Gaussian", "Poisson", "Bernoulli", "Categorical"]


def test_a_table_of_few_columns_has_gaussian_processes_of_two_widths():
    features, _ = two_rings(60)
    found = [form for form in choice_for(answered(features)).forms if "process" in form.kind]
    assert [form.kind for form in found] == ["Gaussian process", "narrow Gaussian process"]
    wide, narrow = (form.make_coordinates(CrowdData(features)) for form in found)
    assert wide.width == 2 * narrow.width
    assert len(wide.landmarks) == 50
    new = wide.latent(torch.tensor([[1.0, torch.nan]]))  # of a column in the middle
    assert new.isfinite().all()
    for other in (CrowdData(features), answered(np.random.default_rng(0).normal(size=(60, 51)))):
        assert not [form for form in choice_for(other).forms if "process" in form.kind]
