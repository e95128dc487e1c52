"""Directions of the features: one Gaussian of all of them, of rows without gaps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import OF_SEVERAL, Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.transforms import Filled, PowerTransformed, Projected, Selected

from ..crowds import fit_plain
from .inner_emissions import tensor


@pytest.mark.parametrize("scale", [1.7, tensor(1.7, 0.6)], ids=["common", "each"])
def test_a_projection_has_the_density_of_probabilistic_principal_components(scale):
    """A Gaussian on the directions and noise on the rest is one Gaussian of all features."""
    generator = torch.Generator().manual_seed(0)
    directions = torch.linalg.qr(torch.randn(5, 2, generator=generator).double()).Q.mT
    mean, residual = torch.randn(5, generator=generator).double(), 0.3
    projected = Projected(Identity(), mean, directions, scale, residual)
    location, covariance = tensor(0.4, -0.2), torch.tensor([[1.0, 0.3], [0.3, 0.5]]).double()
    features = torch.randn(4, 5, generator=generator).double()
    latent = torch.distributions.MultivariateNormal(location, covariance)
    ours = latent.log_prob(projected.latent(features)) + projected.log_volume(features)
    rest = torch.eye(5).double() - directions.mT @ directions
    units = torch.diag(scale * torch.ones(2).double())
    whole = torch.distributions.MultivariateNormal(
        mean + (scale * location) @ directions,
        directions.mT @ units @ covariance @ units @ directions + residual * rest,
    )
    torch.testing.assert_close(ours, whole.log_prob(features))
    assert projected.latent_size(5) == 2
    back = projected.latent(projected.features(projected.latent(features)))
    torch.testing.assert_close(back, projected.latent(features))


@pytest.mark.parametrize(("scale", "residual"), [(0.0, 1.0), (1.0, 0.0)])
def test_a_projection_needs_units(scale, residual):
    with pytest.raises(ValueError, match="both must be above 0"):
        Projected(Identity(), torch.zeros(2), torch.eye(2)[:1], scale, residual)


def test_directions_need_whole_rows():
    """A direction is a sum over all features; powers are of one each."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 3)) + 6 * (np.arange(60) % 2)[:, None]
    gappy = features.copy()
    gappy[0, 1] = np.nan
    for emission in (
        PowerTransformed(torch.ones(3), torch.zeros(3), torch.ones(3)),
        Selected(Identity(), torch.tensor([True, True, False])),
        Projected(Identity(), torch.zeros(3), torch.eye(3)[:2], 1.0, 1.0),
    ):
        dim = emission.latent_size(3)
        model = SemiCrowdsourcedMixture(DirichletWeights(2), GaussianComponents(2, dim), emission)
        result = fit_plain(model, MessagePassingGuide(model), CrowdData(features), epochs=5)
        if emission.mixes_features:
            with pytest.raises(ValueError, match="1 feature of the data are missing"):
                result.predict(gappy)
        else:
            assert np.isfinite(result.predict_proba(gappy)).all()


def test_features_stand_beside_the_directions():
    inner = Selected(Identity(), torch.tensor([True, False, True, True]))
    emission = Projected(inner, tensor(1.0, 0.0, 0.0), torch.eye(3)[:2], 2.0, 0.5, beside=[1])
    features = tensor(3.0, 7.0, 4.0, 9.0, 1.0, torch.nan, 0.0, 0.0).reshape(2, 4)
    points = emission.latent(features)
    expected = tensor(1.0, 2.0, 7.0, 0.0, 0.0, torch.nan).reshape(2, 3)
    torch.testing.assert_close(points, expected, equal_nan=True)
    torch.testing.assert_close(emission.on_directions(features), points[:, :2])
    assert emission.latent_size(4) == 3
    assert emission.own_features(4) == [OF_SEVERAL, OF_SEVERAL, 1]
    assert emission.coordinate_names("abcd") == ["direction 0", "direction 1", "b"]
    torch.testing.assert_close(emission.features(points[:1]), tensor(3.0, 7.0, 4.0, 0.0)[None])
    # Of two levels of the feature beside, as of a category, a summary has two columns.
    location = tensor(1.0, 2.0, 0.2, 0.8).reshape(1, 4)
    found = emission.in_feature_units(location, [0, 1, 2, 2])
    torch.testing.assert_close(found, tensor(3.0, 4.0, 0.0, 0.2, 0.8)[None])
    # A feature beside has its own mass, whatever it is.
    other = features.clone()
    other[:, 1] = 0.0
    torch.testing.assert_close(emission.log_volume(features), emission.log_volume(other))
    for beside, fills in ([1], False), ([], True):
        filled = Projected(
            Filled(inner, torch.zeros(3)), torch.zeros(3), torch.eye(3)[:2], 1.0, 0.5, beside
        )
        assert filled.takes_gaps
        assert filled.fills_gaps == fills
    assert not emission.takes_gaps
