"""The forms that suit a table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import choice_for

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
        emission = form.emission(data)
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
    points = tails[0].emission(choice.data).latent(torch.as_tensor(features))
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
