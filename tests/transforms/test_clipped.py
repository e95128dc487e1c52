"""Numbers stay within bounds, and all else is that of the inner coordinates."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.transforms import Clipped, Filled, Selected

from .inner_emissions import EMISSIONS, tensor


def test_only_what_is_outside_moves():
    inner = EMISSIONS["standardized"]()
    emission = Clipped(inner, tensor(-1.0, -1.0, -torch.inf), tensor(1.0, 1.0, torch.inf))
    features = tensor(1.2, 40.0, 1e9, -9.0, torch.nan, -1e9).reshape(2, 3)
    expected = tensor(0.4, 1.0, 1e9, -1.0, torch.nan, -1e9).reshape(2, 3)
    torch.testing.assert_close(emission.latent(features), expected, equal_nan=True)
    torch.testing.assert_close(emission.features(expected[:1]), inner.features(expected[:1]))
    torch.testing.assert_close(emission.log_volume(features), inner.log_volume(features))
    assert emission.units(3) == inner.units(3)
    assert emission.own_features(3) == [0, 1, 2]
    assert emission.coordinate_names("abc") == ["a", "b", "c"]
    assert emission.takes_gaps
    assert not emission.fills_gaps


def test_gaps_are_filled_and_drawn_behind_it():
    kept = Selected(Identity(), torch.tensor([True, False, True]))
    emission = Clipped(Filled(kept, tensor(0.5, 7.0)), tensor(0.0, 0.0), tensor(1.0, 5.0))
    assert emission.fills_gaps
    rows = tensor(torch.nan, 2.0, torch.nan).reshape(1, 3)
    torch.testing.assert_close(emission.latent(rows), tensor(0.5, 5.0).reshape(1, 2))
    drawn = emission.filled_in(rows, torch.Generator().manual_seed(0))
    assert bool(drawn.isfinite().all())
    assert float(drawn[0, 1]) == 2
    assert emission.latent_size(3) == 2


def test_bounds_are_in_order():
    with pytest.raises(ValueError, match="low is above high"):
        Clipped(Identity(), tensor(1.0), tensor(0.0))
