"""Missing coordinates are filled, and nothing else changes."""

from __future__ import annotations

import torch

from pyro_crowdclust.transforms import Filled, OneHot, Projected

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
