"""Regressions on landmarks are Gaussian processes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.gaussian_process.kernels import RBF

from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.transforms import Landmarks

from .inner_emissions import EMISSIONS


@pytest.mark.parametrize("name", EMISSIONS)
def test_scores_have_the_covariance_of_a_gaussian_process(name):
    """That of the Nystroem approximation, which is exact at the landmarks."""
    inner, generator = EMISSIONS[name](), torch.Generator().manual_seed(0)
    features = torch.randn(9, 3, dtype=torch.float64, generator=generator)
    points = inner.latent(features).numpy()
    emission, kernel = Landmarks(inner, torch.from_numpy(points[:5]), 1.3), RBF(1.3)
    assert emission.latent_size(3) == 5
    x = emission.latent(features).numpy()
    across = kernel(points, points[:5])
    expected = across @ np.linalg.solve(kernel(points[:5]), across.T)
    np.testing.assert_allclose(x @ x.T, expected, atol=1e-4)
    np.testing.assert_allclose((x @ x.T)[:5, :5], kernel(points[:5]), atol=1e-4)


def test_landmarks_that_coincide_count_as_one():
    twice = Landmarks(Identity(), torch.zeros(2, 1), 1.0)
    once = Landmarks(Identity(), torch.zeros(1, 1), 1.0)
    points = torch.linspace(-2, 2, 5).view(-1, 1)
    products = [(x @ x.mT) for x in (twice.latent(points), once.latent(points))]
    torch.testing.assert_close(*products, atol=1e-5, rtol=0)


def test_a_width_is_above_zero():
    with pytest.raises(ValueError, match="width is 0"):
        Landmarks(Identity(), torch.zeros(1, 1), 0)
