from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.callbacks import MergeMoves
from pyro_crowdclust.emissions import Identity, NormalEmission
from pyro_crowdclust.families import GaussianParameters, IndependentNormals, Moments
from pyro_crowdclust.guides import AmortizedGuide, MessagePassingGuide
from pyro_crowdclust.mixture import (
    Components,
    DiagonalGaussianComponents,
    GaussianComponents,
    StickBreakingWeights,
)
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import AmortizedRecognition, GaussianRecognition, SkipMLP

from ..comparisons import same
from ..crowds import crowd, quiet_fit
from ..mixture_parts import CLUSTERS, WEIGHTS


def test_components_in_other_units_have_the_density_of_the_features():
    location, scale, x = torch.tensor([3.0, -1.0]), torch.tensor([0.5, 4.0]), torch.randn(5, 2)
    covariance = torch.tensor([[2.0, 0.4], [0.4, 0.7]])
    full = GaussianParameters(torch.randn(2), covariance)
    independent = IndependentNormals(torch.randn(2), torch.tensor([0.3, 2.0]))
    normal = torch.distributions.MultivariateNormal
    moved = GaussianComponents(1, 2).in_units(full, location, scale)
    moved_alone = DiagonalGaussianComponents(1, 2).in_units(independent, location, scale)
    alone, after = (
        normal(one.mean, precision_matrix=one.precision.diag())
        for one in (independent, moved_alone)
    )
    for before, other in ((normal(*full), normal(*moved)), (alone, after)):
        expected = before.log_prob(x) - scale.log().sum()
        same(other.log_prob(location + scale * x), expected)


def test_a_covariance_is_the_mean_where_there_is_one_and_a_point_the_mode():
    components, spread = GaussianComponents(1, 2), torch.tensor([[2.0, 0.4], [0.4, 0.7]])
    for degrees, divisor in ((2.5, 5.5), (3.5, 0.5), (7.0, 4.0)):
        kappa, nu = torch.tensor([0.5]), torch.tensor([degrees])
        eta = components.family.natural(torch.zeros(1, 2), kappa, spread[None], nu)
        same(components.summary(eta).covariance[0], spread / divisor)
        same(components.point(eta).covariance[0], spread / (degrees + 3))


def test_a_learned_prior_counts_as_a_thousand_items_at_most():
    """The variance that it expects stays."""
    components = DiagonalGaussianComponents(1, 1)
    family, one = components.family, torch.ones(1)
    sharp = family.natural(0 * one, one, 1e5 * one, 3e5 * one)
    found = components.learned_prior(family.expected_statistics(sharp))
    _, _, shape, rate = family.standard(found)
    same(shape, 500 * one)
    same(rate / shape, 3 * one, 1e-3)
    full = GaussianComponents(1, 2)
    degrees = torch.tensor(1e5)
    sharp = full.family.natural(torch.zeros(2), torch.tensor(1.0), degrees * torch.eye(2), degrees)
    learned = full.learned_prior(full.family.expected_statistics(sharp))
    same(full.family.standard(learned).degrees, torch.tensor(1002.0))


def test_the_nearest_independent_components_have_the_variances():
    components = DiagonalGaussianComponents(2, 2)
    covariance = torch.tensor([[2.0, 0.4], [0.4, 0.7]]).expand(2, 2, 2)
    given = GaussianParameters(torch.randn(2, 2), covariance)
    mean, found = components.gaussian(components.from_gaussian(given))
    same(mean, given.mean)
    same(found, torch.diag(torch.tensor([2.0, 0.7])).expand(2, 2, 2))


def one_dimensional(components: Components, deep: bool) -> SemiCrowdsourcedMixture:
    emission = NormalEmission(SkipMLP((1, 4, 3)), 3) if deep else Identity()
    return SemiCrowdsourcedMixture(StickBreakingWeights(3), components, emission)


@pytest.mark.parametrize("deep", [False, True], ids=["features", "latents"])
def test_in_one_dimension_diagonal_and_full_components_are_the_same(deep):
    """All of a fit: bounds, assignments, posteriors."""
    torch.manual_seed(0)
    data, results = CrowdData(torch.randn(40, 3 if deep else 1)), []
    for components in (GaussianComponents(3, 1), DiagonalGaussianComponents(3, 1)):
        model = one_dimensional(components, deep)
        recognition = GaussianRecognition(SkipMLP((3, 4, 2)), 1) if deep else None
        guide = MessagePassingGuide(model, recognition)
        results.append(quiet_fit(model, guide, data, epochs=3, step_size=0.5))
    full, diagonal = results
    np.testing.assert_allclose(diagonal.history["elbo"], full.history["elbo"], rtol=1e-9)
    np.testing.assert_allclose(diagonal.probabilities, full.probabilities, atol=1e-9)
    a, b = full.guide.mixture(), diagonal.guide.mixture()
    same(b.location, a.location)
    same(b.covariance, a.covariance.squeeze(-1))


def test_diagonal_components_on_latents_score_as_on_features():
    """The embedding in the layout of the full Gaussian, at known latents."""
    components = DiagonalGaussianComponents(CLUSTERS, 3)
    eta = components.prior.natural_parameters + torch.rand(CLUSTERS, 12)
    statistics = components.family.expected_statistics(eta)
    x = torch.randn(6, 3)
    on_features = components.family.observation_statistics(x) @ statistics.mT
    family = components.latent_family
    moments = Moments.point(x).flat()
    on_latents = (
        family.observation_statistics(moments) @ components.latent_statistics(statistics).mT
    )
    same(on_latents, on_features)


def test_variances_have_a_mean_or_else_a_mode():
    """Of Gamma(a, b) precisions: b / (a - 1) for a above 1, else b / (a + 1)."""
    components = DiagonalGaussianComponents(2, 1)
    shape, rate = torch.tensor([[3.0], [0.5]]), torch.tensor([[4.0], [6.0]])
    ones = torch.ones(2, 1)
    eta = components.family.natural(0 * ones, ones, shape, rate)
    assert components.summary(eta).covariance.flatten().tolist() == [2.0, 4.0]
    # A point estimate starts at the mode of every variance.
    variance = 1 / components.point(eta).precision.flatten()
    assert variance.tolist() == pytest.approx([1.0, 4.0])


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("components", [GaussianComponents, DiagonalGaussianComponents])
def test_point_estimates_of_any_weights_and_gaussian_components(weights, components):
    """SCDC starts at the posterior means, learns, merges, and reads back what it holds."""
    data = crowd()
    model = SemiCrowdsourcedMixture(
        WEIGHTS[weights](),
        components(CLUSTERS, 2),
        NormalEmission(SkipMLP((2, 5, 4)), 4),
    )
    data = CrowdData(data.features)
    guide = AmortizedGuide(model, AmortizedRecognition((4, 5, 5), 2, CLUSTERS))
    result = quiet_fit(model, guide, data, epochs=2, callbacks=[MergeMoves()])
    mixture = result.guide.mixture()
    assert mixture.weights.sum().item() == pytest.approx(1)
    assert mixture.location.shape == (CLUSTERS, 2)
    torch.linalg.cholesky(mixture.covariance)
    assert math.isfinite(result.elbo)
    assert result.components.shape == (CLUSTERS, 2)
    before = mixture.weights
    first, second = 1, 3
    total = (before[first] + before[second]).item()
    empty = result.guide.merge(first, second)
    after = result.guide.mixture()
    kept = first + second - empty
    assert after.weights[kept].item() == pytest.approx(total, abs=1e-5)
    share = before[[first, second]] / total
    center = share @ mixture.location[[first, second]]
    torch.testing.assert_close(after.location[kept], center)
    if components is DiagonalGaussianComponents:
        off_diagonal = after.covariance - after.covariance.diagonal(dim1=-2, dim2=-1).diag_embed()
        assert not off_diagonal.any()
