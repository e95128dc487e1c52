"""What is outside the bounds is missing, and all else is that of the inner coordinates."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.transforms import Filled, Selected, Within

from .inner_emissions import EMISSIONS, tensor

LOW, HIGH = tensor(-1.0, -torch.inf, 0.0), tensor(1.0, 5.0, torch.inf)


@pytest.mark.parametrize("make", EMISSIONS.values(), ids=EMISSIONS.keys())
def test_numbers_outside_are_as_if_they_were_missing(make):
    inner = make()
    emission = Within(inner, LOW, HIGH)
    features = tensor(1.2, 4.0, 1e9, 0.5, 6.0, -1.0, torch.nan, 5.0, 0.0).reshape(3, 3)
    gap = torch.nan
    seen = tensor(gap, 4.0, 1e9, 0.5, gap, gap, gap, 5.0, 0.0).reshape(3, 3)
    torch.testing.assert_close(emission.latent(features), inner.latent(seen), equal_nan=True)
    torch.testing.assert_close(emission.log_volume(features), inner.log_volume(seen))
    torch.testing.assert_close(emission.features(features[:1]), inner.features(features[:1]))
    assert emission.makes_gaps
    assert not inner.makes_gaps
    assert emission.own_features(3) == [0, 1, 2]
    assert emission.mixes_features == inner.mixes_features


def test_what_is_outside_is_filled_and_drawn_where_the_inner_does_so():
    kept = Selected(Identity(), torch.tensor([True, False, True]))
    emission = Within(Filled(kept, tensor(0.5, 7.0)), LOW, HIGH)
    assert emission.fills_gaps
    assert not emission.makes_gaps
    rows = tensor(9.0, 2.0, -1.0).reshape(1, 3)
    torch.testing.assert_close(emission.latent(rows), tensor(0.5, 7.0).reshape(1, 2))
    drawn = emission.filled_in(rows, torch.Generator().manual_seed(0))
    assert bool(drawn.isfinite().all())
    assert float(drawn[0, 1]) == 2
    assert float(drawn[0, 0]) != 9


def test_bounds_are_in_order():
    with pytest.raises(ValueError, match="low is above high"):
        Within(Identity(), tensor(1.0), tensor(0.0))
