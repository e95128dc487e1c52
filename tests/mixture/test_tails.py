"""Components with heavy tails, against scipy's Student and integrals over the scale of an item."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import torch

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import (
    DiagonalGaussianComponents,
    DirichletWeights,
    GaussianComponents,
    MixedComponents,
    PoissonComponents,
)
from pyro_crowdclust.mixture.tails import central_coordinates, central_units
from pyro_crowdclust.models import SemiCrowdsourcedMixture

from ..crowds import fit_plain
from ..mixture_parts import SUPERVISION, guide_of, simulated

KINDS = pytest.mark.parametrize("make", [GaussianComponents, DiagonalGaussianComponents])
NU = 2.5


def log_densities(components, statistics, features, weight: float = 1.0) -> torch.Tensor:
    """log p(x_o | theta_k), base measure included."""
    has_gaps = bool(features.isnan().any())
    family, statistics = components.of_rows(statistics, has_gaps, weight)
    observed = components.observe(features, has_gaps)
    base = torch.as_tensor(family.log_base_measure(observed)).expand(len(features))
    return family.log_likelihoods(statistics, observed) + base[:, None]


def test_central_units_are_of_the_middle_two_thirds():
    """Of a ramp, with a gap; one outlier, where the unit is 1; and of what nobody has seen."""
    ramp, outlier = torch.arange(7.0), torch.tensor([4.0] * 6 + [90.0])
    gap = torch.cat([ramp, torch.tensor([torch.nan])])
    features = torch.stack([gap, torch.cat([outlier, outlier[:1]]), torch.full((8,), torch.nan)], 1)
    median, unit = central_units(features)
    torch.testing.assert_close(median[:2], torch.tensor([3.0, 4.0]))
    torch.testing.assert_close(unit[:2], torch.tensor([2.0, 0.0]))
    found = central_coordinates(features)[:7]
    torch.testing.assert_close(found[:, 0], ((ramp - 3) / 2).asinh())
    torch.testing.assert_close(found[:, 1], (outlier - 4).asinh())
    assert found[:, 2].isnan().all()


@KINDS
def test_at_a_point_it_is_students_density(make):
    components, features = make(3, 4, tails=NU), 3 * torch.randn(6, 4)
    features[3, 1] = features[4, :2] = features[5] = torch.nan
    features[3, 0] = 0.0
    eta = components.prior.natural_parameters
    theta = components.family.sample(eta)
    statistics = components.family.sufficient_statistics(theta)
    gaussian = [components.gaussian(type(theta)(*(p[k] for p in theta))) for k in range(3)]
    expected = np.zeros((6, 3))
    for row, k in np.ndindex(6, 3):
        seen = ~features[row].isnan()
        mean, covariance = gaussian[k].mean[seen], gaussian[k].covariance[seen][:, seen]
        x = features[row, seen].numpy()
        if make is DiagonalGaussianComponents:
            scale = covariance.diagonal().sqrt()
            expected[row, k] = scipy.stats.t.logpdf(x, NU, mean, scale).sum()
        elif len(x):
            expected[row, k] = scipy.stats.multivariate_t(mean, covariance, NU).logpdf(x)
    found = log_densities(components, statistics, features)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    whole = log_densities(components, statistics, features[:3], 0.3)
    np.testing.assert_allclose(whole, 0.3 * expected[:3], rtol=1e-9)


@KINDS
def test_under_a_posterior_it_is_the_bound_at_the_best_scale(make):
    """By quadrature: the integral over s of p(s) exp E[log N(x | mu, Sigma / s)]."""
    dim = 2 if make is GaussianComponents else 1
    components, features = make(1, dim, tails=NU), 2 * torch.randn(3, dim)
    statistics = components.family.expected_statistics(components.prior.natural_parameters)
    found = log_densities(components, statistics, features).squeeze(1)
    log_determinant = 2 * statistics[0, -1]
    inner = components.family.log_likelihoods(statistics, components.observe(features))
    distance = (log_determinant - 2 * inner.squeeze(1)).numpy()
    prior = scipy.stats.gamma(NU / 2, scale=2 / NU)
    for row in range(3):

        def integrand(s: float, delta: float = float(distance[row])) -> float:
            return prior.pdf(s) * s ** (dim / 2) * math.exp(-s * delta / 2)

        integral, _ = scipy.integrate.quad(integrand, 0, np.inf)
        expected = math.log(integral) + log_determinant / 2 - dim * math.log(2 * math.pi) / 2
        assert float(found[row]) == pytest.approx(float(expected), rel=1e-6)


@KINDS
@pytest.mark.parametrize("supervision", ["nobody", "graders who lapse, and owners"])
def test_a_fit_climbs_and_takes_gaps(make, supervision, tmp_path):
    """At rate 1 on all data every step is coordinate ascent, and the ELBO never falls."""
    parts = SUPERVISION[supervision].parts()
    model = SemiCrowdsourcedMixture(DirichletWeights(4), make(4, 2, tails=3.0), Identity(), **parts)
    features, clusters = simulated(model)
    data = SUPERVISION[supervision].helped(features, clusters)
    result = fit_plain(model, guide_of(model), data, epochs=6)
    elbos = result.history["elbo"].to_numpy()
    assert (np.diff(elbos) > -1e-9 * np.abs(elbos[0])).all(), elbos
    gaps = features.numpy().copy()
    gaps[::2, 0] = np.nan
    found, whole = result.predict_proba(gaps), result.predict_proba(features)
    np.testing.assert_allclose(found[1::2], whole[1::2])
    result.save(tmp_path / "fit.safetensors")
    again = load(tmp_path / "fit.safetensors")
    np.testing.assert_allclose(again.predict_proba(gaps), found, atol=1e-9)
    assert np.isfinite(found).all()
    assert np.abs(found - whole).max() > 1e-3


def test_the_elbo_is_below_the_evidence():
    """Of one cluster: the mean-field q of theta and of the scales is all that is lost."""
    components = DiagonalGaussianComponents(1, 1, degrees=3.0, scale=1.0, tails=NU)
    model = SemiCrowdsourcedMixture(DirichletWeights(1), components, Identity())
    x = torch.tensor([[-0.5], [0.3], [4.0]], dtype=torch.float64)
    result = fit_plain(model, MessagePassingGuide(model), CrowdData(x), epochs=30)
    prior = components.family.standard(components.prior.natural_parameters[0])
    _, kappa, shape, rate = (part.item() for part in prior)
    mean, precision = np.meshgrid(np.linspace(-12, 12, 301), np.geomspace(1e-4, 60, 300))
    density = scipy.stats.gamma.pdf(precision, shape, scale=1 / rate)
    density *= scipy.stats.norm.pdf(mean, 0, (kappa * precision) ** -0.5)
    for number in x[:, 0].numpy():
        density *= scipy.stats.t.pdf(number, NU, mean, precision**-0.5)
    of_precision = scipy.integrate.trapezoid(density, mean[0], axis=1)
    evidence = scipy.integrate.trapezoid(of_precision, precision[:, 0])
    assert math.log(evidence) - 0.7 < result.elbo < math.log(evidence)


@KINDS
def test_draws_have_the_tails(make):
    components = make(1, 2, tails=NU)
    theta = components.family.sample(components.prior.natural_parameters)
    statistics = components.family.sufficient_statistics(theta)
    drawn = components.given(statistics, torch.ones(20_000, 1)).rsample()
    gaussian = components.gaussian(type(theta)(*(part[0] for part in theta)))
    away = (components.features(drawn)[:, 0] - gaussian.mean[0]) / gaussian.covariance[0, 0].sqrt()
    assert scipy.stats.kstest(away.numpy(), scipy.stats.t(NU).cdf).pvalue > 0.001


def test_what_they_cannot_be_part_of():
    with pytest.raises(ValueError, match="with heavy tails cannot be a part"):
        MixedComponents([GaussianComponents(3, 2, tails=3.0), PoissonComponents(3, 1)])
    with pytest.raises(ValueError, match="tails is 0"):
        DiagonalGaussianComponents(3, 2, tails=0.0)
