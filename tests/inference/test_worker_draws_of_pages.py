"""Intervals of sorters' rates count the doubt about items' clusters and the states of pages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import SortedPages
from pyro_crowdclust.data import without_features
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide, PairRegressionGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents, SoftmaxRegression
from pyro_crowdclust.models import PairRegression, SemiCrowdsourcedMixture
from pyro_crowdclust.simulation import simulate_placements

TRUTH = np.arange(90) % 3


def sorted_clouds(distance: float, size: int = 9):
    """A fit to three clouds so far apart, and three pages of this size of every worker."""
    features = distance * np.eye(3)[TRUTH] + np.random.default_rng(0).normal(size=(90, 3))
    pages = simulate_placements(TRUTH, [0.9, 0.8, 0.7], pages_per_worker=3, page_size=size, seed=0)
    data = CrowdData(features, placements=pages, item_ids=range(90))
    components, annotators = GaussianComponents(3, 3), SortedPages(data.num_workers)
    model = SemiCrowdsourcedMixture(DirichletWeights(3), components, Identity(), annotators)
    options = {"batch_size": None, "step_size": 0.5, "epochs": 15, "progress": False}
    return fit(model, MessagePassingGuide(model), data, dtype=torch.float64, **options)


@pytest.mark.long
def test_intervals_are_wider_where_clusters_are_in_doubt():
    wider = []
    for distance, size in ((8.0, 60), (1.5, 9)):
        result = sorted_clouds(distance, size)
        own, workers = result.guide.workers(), result.workers
        for name in ("accuracy", "lumped", "careless"):
            np.testing.assert_allclose(workers[name], own.rates[name].mean)
            assert (workers[f"{name}_sd"] >= own.rates[name].sd - 1e-9).all()
        assert (workers["weight_sd"] >= own.weight_sd).all()
        assert workers.equals(replace(result).workers)
        wider.append((workers["accuracy_sd"] / own.rates["accuracy"].sd).mean())
    assert 1 <= wider[0] < 1.2
    assert wider[1] > 1.4


@pytest.mark.long
def test_intervals_of_a_regression_are_wider_too():
    features = 1.5 * np.eye(3)[TRUTH] + np.random.default_rng(0).normal(size=(90, 3))
    rates = [0.9, 0.8, 0.7]
    pages = simulate_placements(TRUTH, rates, pages_per_worker=3, page_size=9, seed=0)
    data = CrowdData(features, placements=pages, item_ids=range(90))
    regression = SoftmaxRegression(3, 3, scale=1.0)
    model = PairRegression(regression, SortedPages(data.num_workers))
    guide = PairRegressionGuide(model, num_items=90)
    options = {"batch_size": None, "step_size": 0.5, "epochs": 15, "progress": False}
    result = fit(model, guide, data, dtype=torch.float64, **options)
    own = result.guide.workers().rates["accuracy"].sd
    assert (result.workers["accuracy_sd"] / own).mean() > 1.1


def test_intervals_without_features_are_those_of_the_posterior():
    result = sorted_clouds(1.5)
    own = result.guide.workers().rates["accuracy"].sd
    alone = replace(result, data=without_features(result.data))
    np.testing.assert_allclose(alone.workers["accuracy_sd"], own)
