"""Some of the features: their coordinates stay what they are, the others tell nothing."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.transforms import Selected

from .inner_emissions import EMISSIONS


@pytest.mark.parametrize("make", EMISSIONS.values(), ids=EMISSIONS.keys())
def test_a_selection_is_of_some_features(make):
    """Its coordinates are those of the kept features; the others come back at their origin."""
    inner, kept = make(), torch.tensor([True, False, True])
    emission = Selected(inner, kept)
    features = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    latent = emission.latent(features)
    torch.testing.assert_close(latent, inner.latent(features)[:, kept])
    back = emission.features(latent)
    torch.testing.assert_close(back[:, kept], features[:, kept])
    torch.testing.assert_close(back[:, ~kept], inner.features(torch.zeros(6, 3).double())[:, ~kept])
    assert emission.latent_size(3) == 2
    assert emission.own_features(3) == [0, 2]
    # Two columns about the last feature, as of one with two categories.
    twice = emission.in_feature_units(latent[:, [1, 1]], [1, 1])
    torch.testing.assert_close(twice, features[:, [2, 2]])
