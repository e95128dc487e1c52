"""What candidates are fitted to, and how they are scored."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
import torch
from sklearn.metrics import adjusted_rand_score

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import choice_for
from pyro_crowdclust.interface.candidates.weights import WEIGHTS
from pyro_crowdclust.interface.choosing import trying
from pyro_crowdclust.interface.choosing.held_out import split
from pyro_crowdclust.interface.choosing.rereading import with_feature_weight
from pyro_crowdclust.interface.choosing.trying import Candidates, at_weights
from pyro_crowdclust.transforms import Projected

from ..small_choices import (
    small,
    two_rings,
)


@pytest.fixture(autouse=True, scope="module")
def _short_searches(_few_draws):
    """Not here, where how a search goes is what is tested."""


def test_data_that_are_too_many_are_tried_in_part(monkeypatch):
    monkeypatch.setattr(trying, "MAX_ITEMS", 100)
    data = CrowdData(two_rings(240)[0])
    seen = []

    def note(recipe_data):
        seen.append(recipe_data.num_items)
        return standard(recipe_data)

    choice = small(data, 3, forms=1)
    standard = choice.forms[0].make_coordinates
    form = dataclasses.replace(choice.forms[0], make_coordinates=note)
    result = dataclasses.replace(choice, forms=(form,)).fit(num_starts=1, progress=False)
    assert seen == [100, 240]
    assert result.data is data


@pytest.mark.long
def test_many_clusters_on_many_directions_have_the_epochs_that_they_need():
    rng = np.random.default_rng(2)
    kind = rng.integers(12, size=600)
    features = rng.normal(size=(12, 384))[kind]
    features += 0.7 * rng.normal(size=(600, 30)) @ rng.normal(size=(30, 384))
    features += 2 * rng.normal(size=(600, 384))
    candidates = Candidates(choice_for(CrowdData(features)), 0, False)
    form = next(form for form in candidates.plan.forms if form.features.startswith("40"))
    cut, found = (
        candidates.fit_of(dataclasses.replace(form, epochs=epochs), 13, candidates.data)
        for epochs in (60, form.epochs)
    )
    assert found.elbo > cut.elbo
    agree_cut, agree = (adjusted_rand_score(kind, one.assignments) for one in (cut, found))
    assert agree > 0.85 > agree_cut + 0.1


def test_directions_are_compared_by_what_clusters_say_beyond_one_gaussian():
    noise = np.random.default_rng(0).normal(size=(80, 60))
    parted = noise + 5 * (np.arange(80) % 2)[:, None]
    of_noise, of_clusters = (
        Candidates(choice, 0, False).try_out(choice.forms[0], 2).elbo
        for choice in (small(CrowdData(x), 2, forms=1) for x in (noise, parted))
    )
    assert of_noise < 0 < 0.5 < of_clusters


@pytest.mark.parametrize("dim", [2, 14])
def test_rounded_numbers_are_compared_where_they_were_fitted(dim):
    """By the slopes of the coordinates there, and by what directions leave out of a normal one."""
    rng = np.random.default_rng(0)
    rounded = (2 * rng.normal(size=(60, 3)) @ rng.normal(size=(3, dim)) + 8).round()
    candidates = Candidates(choice_for(CrowdData(rounded)), 0, False)
    for form in candidates.plan.forms:
        emission, found = candidates.coordinates_of(form)
        fitted = form.recipe(candidates.data, 2, emission).data
        rows = fitted.rows(torch.arange(fitted.num_items)).requires_grad_()
        projected = isinstance(emission, Projected)
        inner = emission.inner.latent(rows) if projected else emission.latent(rows)
        (slopes,) = torch.autograd.grad(inner.sum(), rows)
        expected = slopes.log().sum(1)
        if projected:
            others = scipy.linalg.null_space(emission.directions.numpy())
            rest = (inner.detach() - emission.mean).numpy() @ others
            normal = scipy.stats.norm.logpdf(rest, scale=emission.residual**0.5)
            expected = expected + torch.from_numpy(normal.sum(1)) - emission.scale.log().sum()
        assert found == pytest.approx(float(expected.mean()))


def test_features_weigh_less_where_the_held_out_answers_say_so(rings):
    result, _ = rings
    table = result.chosen.table
    assert table["feature_weight"].between(0, 1).all()
    one = split(result.data, 0.25, torch.Generator().manual_seed(0))
    form = choice_for(result.data).forms[0]
    found = at_weights(form, one, with_feature_weight(result, 0.5))
    assert found.answers.shape == (len(WEIGHTS), len(one.held_out.label))
    # The result itself is read at a weight that the answers have chosen.
    most, least = with_feature_weight(result, 0.9), with_feature_weight(result, 0.05)
    assert (most.model.feature_weight, least.model.feature_weight) == (0.9, 0.05)
    assert (least.probabilities.max(1) <= most.probabilities.max(1) + 1e-6).mean() > 0.9
