"""Rows that differ in length alone are the same."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.emissions import OF_SEVERAL, Identity
from pyro_crowdclust.transforms import EqualLength, Filled, Projected

from .inner_emissions import EMISSIONS, tensor


def test_rows_that_say_the_same_are_the_same():
    inner = EMISSIONS["standardized"]()
    zero = inner.latent(torch.zeros(1, 3, dtype=torch.float64))[0]
    emission = EqualLength(inner, zero, 2.0)
    features = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    points = emission.latent(features)
    torch.testing.assert_close(emission.latent(7.5 * features), points)
    lengths = torch.linalg.vector_norm(points - zero, dim=1)
    torch.testing.assert_close(lengths, torch.full_like(lengths, 2.0))
    # The features of a row of this length, along the same ray.
    back = emission.features(points)
    cosine = torch.nn.functional.cosine_similarity(back, features)
    torch.testing.assert_close(cosine, torch.ones_like(cosine))
    assert emission.units(3) is None
    assert emission.latent_size(3) == 3
    nothing = torch.zeros(1, 3, dtype=torch.float64)
    torch.testing.assert_close(emission.latent(nothing)[0], zero)
    directed = Projected(emission, torch.zeros(3), torch.eye(3)[:2], 1.0, 0.1)
    assert directed.own_features(3) == 2 * [OF_SEVERAL]
    # A row with a gap has no length.
    assert inner.takes_gaps
    assert not emission.takes_gaps
    assert EqualLength(Filled(inner, torch.zeros(3)), zero, 2.0).takes_gaps


def test_the_volume_is_that_of_the_jacobian_at_a_given_length():
    emission = EqualLength(EMISSIONS["standardized"](), tensor(0.3, 0.1, -0.2), 2.0)
    row = tensor(1.5, -4.0, 0.7)
    away = emission.inner.latent(row[None])[0] - emission.zero
    length = torch.linalg.vector_norm(away)

    def at_length(o):
        return emission.zero + 2.0 * (emission.inner.latent(o[None])[0] - emission.zero) / length

    jacobian = torch.autograd.functional.jacobian(at_length, row)
    expected = torch.linalg.slogdet(jacobian).logabsdet
    torch.testing.assert_close(emission.log_volume(row[None])[0], expected)


def test_a_length_is_above_zero():
    with pytest.raises(ValueError, match="length is 0, but must be above 0"):
        EqualLength(Identity(), torch.zeros(2), 0)
