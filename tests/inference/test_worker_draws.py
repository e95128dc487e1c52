"""Intervals of workers who answer about pairs count the doubt about the items' clusters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import pyro_crowdclust
from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import GradedPairs, TwoCoin
from pyro_crowdclust.data import without_features
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.families import OutsideDomain
from pyro_crowdclust.guides import MessagePassingGuide, PairRegressionGuide
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents, SoftmaxRegression
from pyro_crowdclust.models import PairRegression, SemiCrowdsourcedMixture
from pyro_crowdclust.simulation import simulate_pairs

TRUTH = np.arange(30) % 2
RATES = "sensitivity", "specificity"
OPTIONS = {"batch_size": None, "step_size": 0.5, "epochs": 40, "progress": False}


def clouds(distance: float, units: float = 1.0, **options) -> CrowdData:
    """Two clouds so many of these units apart, and forty answers of each of three workers."""
    features = np.random.default_rng(0).normal(size=(30, 2))
    features[:, 0] += distance * TRUTH
    rates = [0.9, 0.7, 0.8], [0.8, 0.9, 0.7]
    pairs = simulate_pairs(TRUTH, *rates, pairs_per_worker=40, seed=0)
    return CrowdData(units * features, pairs, item_ids=range(30), **options)


def mixture(data: CrowdData, annotators=None, **options):
    """A fit of two Gaussians."""
    annotators = annotators or TwoCoin(data.num_workers, (2.0, 1.0), (2.0, 1.0))
    parts = DirichletWeights(2), GaussianComponents(2, 2), Identity(), annotators
    model = SemiCrowdsourcedMixture(*parts, **options)
    return fit(model, MessagePassingGuide(model), data, dtype=torch.float64, **OPTIONS)


@pytest.fixture(scope="module")
def overlapping():
    return mixture(clouds(1.0))


def test_intervals_are_wider_where_clusters_are_in_doubt(overlapping):
    wider = []
    for result in (mixture(clouds(12.0)), overlapping):
        own, workers = result.guide.workers(), result.workers
        for name in RATES:
            np.testing.assert_allclose(workers[name], own.rates[name].mean)
            assert (workers[f"{name}_sd"] >= own.rates[name].sd - 1e-9).all()
        assert (workers["weight_sd"] >= own.weight_sd).all()
        rates = [workers[f"{name}_sd"] / own.rates[name].sd for name in RATES]
        wider.append(np.mean([*rates, workers["weight_sd"] / own.weight_sd]))
    assert 1 <= wider[0] < 1.02
    assert wider[1] > 1.3


def test_components_are_drawn_where_features_count_fully(overlapping, monkeypatch):
    guide, data = overlapping.guide, overlapping.data
    drawn = guide.workers_given(data).rates
    monkeypatch.setattr(MessagePassingGuide, "mixture_draws", lambda *parts: None)
    held = guide.workers_given(data).rates
    own = guide.workers().rates
    for name in RATES:
        assert own[name].sd.mean() < held[name].sd.mean() < drawn[name].sd.mean()


def test_a_table_is_the_same_at_every_reading(overlapping, tmp_path):
    first = overlapping.workers
    before = torch.get_rng_state()
    assert replace(overlapping).workers.equals(first)
    assert torch.equal(torch.get_rng_state(), before)
    overlapping.save(tmp_path / "fit.safetensors")
    loaded = pyro_crowdclust.load(tmp_path / "fit.safetensors", data=overlapping.data)
    assert loaded.workers.equals(first)


def test_intervals_without_features_are_those_of_the_posterior(overlapping):
    own = overlapping.guide.workers().rates["sensitivity"].sd
    alone = replace(overlapping, data=without_features(overlapping.data))
    np.testing.assert_allclose(alone.workers["sensitivity_sd"], own)


def test_mixtures_are_not_drawn_where_features_count_less_or_have_gaps():
    data = clouds(1.0)
    used = torch.arange(2)
    for part, draws in ((1.0, True), (0.5, False)):
        model = SemiCrowdsourcedMixture(
            DirichletWeights(2), GaussianComponents(2, 2), Identity(), feature_weight=part
        )
        guide, batch = MessagePassingGuide(model), full_batch(data)
        assert (guide.mixture_draws(batch, used) is not None) == draws
        gaps = replace(batch, has_gaps=True)
        assert guide.mixture_draws(gaps, used) is None


def draws_in(units: float):
    """Draws of the mixture of clouds in these units."""
    model = SemiCrowdsourcedMixture(DirichletWeights(2), GaussianComponents(2, 2), Identity())
    batch = full_batch(clouds(1.0, units)).to(None, torch.float64)
    draws = MessagePassingGuide(model).mixture_draws(batch, torch.arange(2))
    assert draws is not None
    return draws


# One item in a component, in every chain another one.
ALONE = torch.eye(30, dtype=torch.long)


def test_a_singular_draw_leaves_the_mixture_of_the_fit(overlapping, monkeypatch):
    singular = draws_in(1e12)
    with pytest.raises(OutsideDomain, match="standardize the features"):
        singular(ALONE)
    tables = []
    for draws in (lambda component: singular(ALONE), None):
        monkeypatch.setattr(MessagePassingGuide, "mixture_draws", lambda *parts, own=draws: own)
        tables.append(replace(overlapping).workers)
    assert tables[0].equals(tables[1])


@pytest.mark.long
def test_a_regression_and_grades_have_draws_too():
    data = clouds(1.0)
    regression = PairRegression(SoftmaxRegression(2, 2, scale=1.0), TwoCoin(data.num_workers))
    guide = PairRegressionGuide(regression, num_items=30)
    result = fit(regression, guide, data, dtype=torch.float64, **OPTIONS)
    own = result.guide.workers()
    assert (result.workers["weight_sd"] / own.weight_sd).mean() > 1.1
    graded = mixture(clouds(1.0, grades=[0, 1]), GradedPairs(data.num_workers, 2))
    own = graded.guide.workers()
    assert (graded.workers["weight_sd"] / own.weight_sd).mean() > 1.1
