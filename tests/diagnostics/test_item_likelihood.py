"""Likelihoods of items at draws, against scipy, sums and integrals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch
from scipy.special import logsumexp

from pyro_crowdclust import CrowdData
from pyro_crowdclust.diagnostics import to_arviz
from pyro_crowdclust.diagnostics.draws import global_draws
from pyro_crowdclust.diagnostics.item_likelihood import item_log_likelihood
from pyro_crowdclust.emissions import NormalEmission, Standardized
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import GaussianRecognition, SkipMLP
from pyro_crowdclust.supervision import ClassTable

from ..crowds import NUM_CLUSTERS, plain_mixture, quiet_fit
from ..mixture_parts import guide_of, mixture, simulated
from .exports import DRAWS, one_chain


def test_items_against_scipy(plain, tree):
    features = plain.data.features
    weights, means, covariances = (
        one_chain(tree, "posterior", name)
        for name in ("weights", "component_mean", "component_covariance")
    )
    for draw in (0, DRAWS - 1):
        terms = [
            np.log(weights[draw, k])
            + scipy.stats.multivariate_normal(means[draw, k], covariances[draw, k]).logpdf(features)
            for k in range(NUM_CLUSTERS)
        ]
        found = one_chain(tree, "log_likelihood", "features")[draw]
        np.testing.assert_allclose(found, logsumexp(terms, axis=0), rtol=1e-8)


def test_items_with_a_latent_against_an_integral():
    torch.manual_seed(3)
    emission = NormalEmission(SkipMLP((1, 5, 2)), 2)
    model = SemiCrowdsourcedMixture(DirichletWeights(2, 1.0), GaussianComponents(2, 1), emission)
    recognition = GaussianRecognition(SkipMLP((2, 5, 2)), 1)
    recognition.offset.fill_(math.log(math.expm1(0.5)))  # wide draws
    guide = MessagePassingGuide(model, recognition)
    result = quiet_fit(model, guide, CrowdData(np.random.default_rng(0).normal(size=(12, 2))))
    with result.inside():
        draws = global_draws(result, 2)
        # Every item a hundred times, each with draws of its own.
        many = torch.arange(12).repeat(100)
        found = item_log_likelihood(result, draws, many, latent_draws=40).view(2, 100, 12)
        found = found.logsumexp(1) - math.log(100)
        grid = torch.linspace(-30, 30, 3_001)
        emitted = result.model.emission(grid[:, None])
        features = torch.as_tensor(result.data.features)
        of_features = torch.stack([emitted.log_prob(row) for row in features])
    for draw in range(2):
        weights = draws.sites["weights"].value[draw]
        mean, covariance = (part[draw] for part in draws.sites["components"].value)
        prior = sum(
            weights[k]
            * torch.distributions.Normal(mean[k, 0], covariance[k, 0, 0].sqrt())
            .log_prob(grid)
            .exp()
            for k in range(2)
        )
        integral = torch.trapezoid(of_features.exp() * prior, grid).log()
        torch.testing.assert_close(found[draw], integral, atol=0.05, rtol=0)


@pytest.mark.parametrize("has_gaps", [False, True])
def test_likelihoods_are_of_features_whatever_the_components_are_on(has_gaps):
    """By the mixture of the drawn Gaussians, which are in the units of the features."""
    features = np.random.default_rng(0).normal(size=(30, 2)) * [50.0, 0.1] + [7.0, 2.0]
    if has_gaps:
        features[::3, 1] = np.nan
    units = torch.tensor([7.0, 2.0]), torch.tensor([50.0, 0.1])
    model = SemiCrowdsourcedMixture(
        DirichletWeights(2), GaussianComponents(2, 2), Standardized(*units)
    )
    options = {"batch_size": None, "step_size": 1.0, "epochs": 3, "dtype": torch.float64}
    result = quiet_fit(model, guide_of(model), CrowdData(features), **options)
    tree = to_arviz(result, 2)
    weights, means, covariances = (
        one_chain(tree, "posterior", name)[1]
        for name in ("weights", "component_mean", "component_covariance")
    )
    for row, found in zip(features, one_chain(tree, "log_likelihood", "features")[1], strict=True):
        seen = ~np.isnan(row)
        density = sum(
            weight
            * scipy.stats.multivariate_normal.pdf(row[seen], mean[seen], cov[np.ix_(seen, seen)])
            for weight, mean, cov in zip(weights, means, covariances, strict=True)
        )
        assert found == pytest.approx(np.log(density))


def test_a_poisson_mixture_against_scipy():
    model = mixture("dirichlet", "poisson")
    features, _ = simulated(model)
    result = quiet_fit(
        model, guide_of(model), CrowdData(features), batch_size=None, step_size=1.0, epochs=4
    )
    tree = to_arviz(result, 3)
    weights, rates = (one_chain(tree, "posterior", n) for n in ("weights", "component"))
    for draw in range(3):
        terms = [
            np.log(weight) + scipy.stats.poisson(rate).logpmf(features).sum(1)
            for weight, rate in zip(weights[draw], rates[draw], strict=True)
        ]
        found = one_chain(tree, "log_likelihood", "features")[draw]
        np.testing.assert_allclose(found, logsumexp(terms, axis=0), rtol=1e-8)


def test_labels_that_nobody_gave_are_summed_out(known):
    """A table of labels adds nothing to the density of features."""
    labels = np.where(np.arange(60) < 20, np.arange(60) % 2, -1)
    data = CrowdData(known.data.features, known=labels)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(3, 1.0),
        GaussianComponents(3, 2),
        plain_mixture().emission,
        supervision=ClassTable(3, 2),
    )
    result = quiet_fit(model, guide_of(model), data, batch_size=None, step_size=1.0, epochs=3)
    tree = to_arviz(result, 2)
    parts = ("weights", "component_mean", "component_covariance")
    for draw in range(2):
        drawn = [one_chain(tree, "posterior", name)[draw] for name in parts]
        density = sum(
            weight * scipy.stats.multivariate_normal.pdf(data.features, mean, covariance)
            for weight, mean, covariance in zip(*drawn, strict=True)
        )
        found = one_chain(tree, "log_likelihood", "features")[draw]
        np.testing.assert_allclose(found, np.log(density), rtol=1e-8)
