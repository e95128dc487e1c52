"""Missing coordinates are filled, and nothing else changes."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.emissions import Identity, Standardized
from pyro_crowdclust.transforms import Filled, OneHot, Projected, Selected

from .inner_emissions import EMISSIONS, tensor


def test_gaps_are_filled_and_the_rest_is_that_of_the_inner_coordinates():
    inner = OneHot(EMISSIONS["powers"](), [0, 2, 0])
    emission = Filled(inner, tensor(0.5, -1.0, 0.25, 0.75))
    features = tensor(0.3, 1.0, -2.0, torch.nan, torch.nan, 4.0).reshape(2, 3)
    points, plain = emission.latent(features), inner.latent(features)
    torch.testing.assert_close(points[0], plain[0])
    torch.testing.assert_close(points[1], tensor(0.5, float(plain[1, 1]), 0.25, 0.75))
    assert emission.latent_size(3) == 4
    torch.testing.assert_close(emission.features(points[:1]), features[:1])
    assert emission.coordinate_names("abc") == inner.coordinate_names("abc")
    assert emission.own_features(3) == [0, 2, 1, 1]
    assert emission.units(3) is None  # as of powers
    torch.testing.assert_close(emission.log_volume(features), inner.log_volume(features))
    here = emission.in_feature_units(points, [0, 1, 2, 3])
    torch.testing.assert_close(here, inner.in_feature_units(points, [0, 1, 2, 3]))
    directed = Projected(emission, torch.zeros(4), torch.eye(4)[:2], 1.0, 0.1)
    assert emission.fills_gaps
    assert directed.fills_gaps
    assert not inner.fills_gaps
    assert directed.latent(features).isfinite().all()


MEAN = tensor(0.5, -1.0, 2.0, 0.0)
FACTORS = torch.tensor([[1.0, 0.5, -0.7, 0.2], [0.0, 1.2, 0.3, -0.4]], dtype=torch.float64)
RESIDUAL = 0.3


def conditional(row):
    """Mean and covariance of what is missing, by the formula for any normal distribution."""
    covariance = FACTORS.mT @ FACTORS + RESIDUAL * torch.eye(4, dtype=torch.float64)
    gone, seen = row.isnan(), ~row.isnan()
    by = torch.linalg.solve(covariance[seen][:, seen], covariance[seen][:, gone]).mT
    mean = MEAN[gone] + by @ (row[seen] - MEAN[seen])
    return mean, covariance[gone][:, gone] - by @ covariance[seen][:, gone]


@pytest.mark.parametrize("missing", [[1], [0, 3], [0, 1, 2, 3]])
def test_what_is_missing_is_what_one_normal_distribution_lets_expect(missing):
    row = tensor(2.0, 0.5, -1.0, 3.0)
    row[missing] = torch.nan
    emission = Filled(Identity(), MEAN, FACTORS, RESIDUAL)
    expected = row.clone()
    expected[missing], covariance = conditional(row)
    rows = torch.stack([row, tensor(1.0, 2.0, 3.0, 4.0)])
    torch.testing.assert_close(emission.latent(rows), torch.stack([expected, rows[1]]))
    number = 20_000
    drawn = emission.filled_in(row.expand(number, 4), torch.Generator().manual_seed(0))
    seen = ~row.isnan()
    torch.testing.assert_close(drawn[:, seen], row[seen].expand(number, -1))
    of_draws = drawn[:, missing]
    error = 5 * (covariance.diagonal() / number).sqrt()
    assert bool(((of_draws.mean(0) - expected[missing]).abs() < error).all())
    found = torch.cov(of_draws.mT).reshape(len(missing), -1)
    torch.testing.assert_close(found, covariance, rtol=0.05, atol=0.03)


def test_draws_are_of_the_features_that_coordinates_are_of():
    """In their own units; a category of a row stays missing beside them."""
    inner = Standardized(tensor(10.0, 20.0, 0.0), tensor(2.0, 5.0, 1.0))
    kept = torch.tensor([True, True, False])
    emission = Filled(Selected(inner, kept), torch.zeros(2), torch.tensor([[1.0, 1.0]]), 1e-9)
    features = tensor(14.0, torch.nan, torch.nan).reshape(1, 3)
    drawn = emission.filled_in(features, torch.Generator().manual_seed(0))
    torch.testing.assert_close(drawn[0, :2], tensor(14.0, 30.0), atol=1e-2, rtol=0)
    assert bool(drawn[0, 2].isnan())
    directed = Projected(emission, torch.zeros(2), torch.eye(2)[:1], 1.0, 0.1, beside=[2])
    again = directed.filled_in(features, torch.Generator().manual_seed(0))
    torch.testing.assert_close(again, drawn, equal_nan=True)
    assert inner.filled_in(features, torch.Generator()) is features


def test_a_residual_is_above_zero():
    with pytest.raises(ValueError, match="residual is 0, but must be above 0"):
        Filled(Identity(), torch.zeros(2), torch.eye(2)[:1], 0)
