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
from pyro_crowdclust.interface.choosing.rereading import with_feature_weight
from pyro_crowdclust.interface.choosing.trying import Candidates, at_weights
from pyro_crowdclust.interface.holding_out.splits import split
from pyro_crowdclust.transforms import Projected

from ..small_choices import (
    answered,
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


def test_a_form_that_is_made_again_is_the_one_that_was_tried():
    data = CrowdData(two_rings(60)[0])
    choice = small(data, 2, forms=1)
    candidates = Candidates(choice, 0, False)
    trial = candidates.try_out(choice.forms[0], 2)
    again = dataclasses.replace(small(data, 2, forms=1).forms[0], max_clusters=2)
    assert candidates.place_of(again, 2) == 0
    assert candidates.try_out(again, 2) is trial
    assert candidates.coordinates_of(again)[0] is candidates.coordinates_of(choice.forms[0])[0]


@pytest.mark.long
def test_many_clusters_on_many_directions_have_the_epochs_that_they_need():
    rng = np.random.default_rng(2)
    kind = rng.integers(12, size=600)
    features = rng.normal(size=(12, 384))[kind]
    features += 0.7 * rng.normal(size=(600, 30)) @ rng.normal(size=(30, 384))
    features += 2 * rng.normal(size=(600, 384))
    candidates = Candidates(choice_for(CrowdData(features)), 0, False)
    form = next(form for form in candidates.space.forms if form.features.startswith("40"))
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
    for form in candidates.space.forms:
        emission, found = candidates.coordinates_of(form)
        fitted = form.recipe(candidates.data, 2, emission).data
        rows = fitted.all_rows().requires_grad_()
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
    assert found.log_probabilities.shape == (len(WEIGHTS), len(one.held_out.label))
    # The result itself is read at a weight that the answers have chosen.
    most, least = with_feature_weight(result, 0.9), with_feature_weight(result, 0.05)
    assert (most.model.feature_weight, least.model.feature_weight) == (0.9, 0.05)
    assert (least.probabilities.max(1) <= most.probabilities.max(1) + 1e-6).mean() > 0.9


def blobs(num_items: int = 90) -> CrowdData:
    """Three kinds of items in the plane, far from each other."""
    kind = np.arange(num_items) % 3
    centers = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    return CrowdData(centers[kind] + np.random.default_rng(0).normal(size=(num_items, 2)))


def test_a_fit_from_a_larger_one_is_kept_if_it_is_better():
    choice = small(blobs(), 3, 4, forms=1)
    candidates, (form,) = Candidates(choice, 0, False), choice.forms
    candidates.try_out(form, 4)
    candidates.try_joined(form, 3, 4)
    joined, fit = candidates.trials[1], candidates.fits[1]
    assert (joined.num_components, joined.clusters) == (3, 3)
    assert fit.component_probabilities.shape == (90, 3)
    # One that was tried before stays unless its ELBO is smaller.
    for elbo, is_kept in ((joined.elbo + 1, True), (joined.elbo - 1, False)):
        candidates.trials[1] = dataclasses.replace(joined, elbo=elbo)
        candidates.try_joined(form, 3, 4)
        assert len(candidates.trials) == 2
        assert (candidates.trials[1].elbo == elbo) == is_kept
        assert (candidates.fits[1] is fit) == is_kept


@pytest.mark.parametrize(("sizes", "tried"), [((3,), [3]), ((3, 5), [3, 5])])
def test_a_candidate_starts_again_at_a_larger_one_whether_that_may_be_chosen_or_not(sizes, tried):
    choice = small(blobs(), *sizes, forms=1)
    candidates, (form,) = Candidates(choice, 0, False), choice.forms
    first = candidates.try_out(form, 3)
    candidates.try_again(form, 3)
    assert [trial.num_components for trial in candidates.trials] == tried
    assert candidates.trials[0].elbo >= first.elbo


def test_answers_and_labels_are_supervision():
    features, ring = two_rings(60)
    of_rings = [CrowdData(features), answered(features, ring), CrowdData(features, known=ring)]
    are_of_features = [Candidates(small(one, 3), 0, False).are_of_features for one in of_rings]
    assert are_of_features == [True, False, False]
