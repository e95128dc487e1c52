"""A number for every category, beside the coordinates of the numbers."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.transforms import OneHot, Selected

from .inner_emissions import EMISSIONS, tensor


@pytest.mark.parametrize("make", EMISSIONS.values(), ids=EMISSIONS.keys())
def test_categories_are_numbers_of_their_own(make):
    inner, sizes = make(), [0, 3, 0]
    emission = OneHot(inner, sizes)
    features = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    features[:, 1] = tensor(0.0, 1.0, 2.0, 2.0, 0.0, torch.nan)
    latent = emission.latent(features)
    torch.testing.assert_close(latent[:, :2], inner.latent(features)[:, [0, 2]])
    codes = torch.nn.functional.one_hot(features[:5, 1].long(), 3).double()
    torch.testing.assert_close(latent[:5, 2:], codes)
    assert latent[5, 2:].isnan().all()
    torch.testing.assert_close(emission.features(latent[:5]), features[:5])
    assert emission.latent_size(3) == latent.shape[1]
    assert emission.own_features(3) == [0, 2, 1, 1, 1]
    names = emission.coordinate_names(["a", "b", "c"])
    assert names == ["a", "c", "b = 0", "b = 1", "b = 2"]
    found = emission.in_feature_units(latent[:5, [1, 3]], [1, 3])
    torch.testing.assert_close(found, torch.stack([features[:5, 2], latent[:5, 3]], 1))
    units = emission.units(3)
    if units is not None:
        back = units[0] + units[1] * latent[:5]
        torch.testing.assert_close(back, torch.cat([features[:5, [0, 2]], codes], 1))
    of_some = OneHot(Selected(inner, torch.tensor([False, True, True])), sizes)
    torch.testing.assert_close(of_some.latent(features), latent[:, 1:], equal_nan=True)
