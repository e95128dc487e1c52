"""Powers of columns: scipy's transform of Yeo and Johnson, and its inverse."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch

from pyro_crowdclust.transforms.power import inverse_yeo_johnson, yeo_johnson

from .inner_emissions import tensor

POWERS = [-1.5, 0.0, 0.4, 1.0, 2.0, 3.5]


@pytest.mark.parametrize("power", POWERS)
def test_the_transform_is_that_of_scipy(power):
    x = np.array([-30.0, -2.0, -1e-9, 0.0, 1e-9, 0.3, 5.0, 200.0])
    ours = yeo_johnson(torch.from_numpy(x), torch.tensor(power))
    np.testing.assert_allclose(ours, scipy.stats.yeojohnson(x, power), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("power", POWERS)
def test_the_inverse_returns_what_went_in(power):
    x = tensor(-30.0, -2.0, 0.0, 0.3, 5.0, 200.0)
    back = inverse_yeo_johnson(yeo_johnson(x, torch.tensor(power)), torch.tensor(power))
    torch.testing.assert_close(back, x, rtol=1e-6, atol=1e-9)


def test_beyond_its_range_the_inverse_is_far_and_finite():
    assert inverse_yeo_johnson(tensor(10.0), torch.tensor(-1.0)).isfinite().all()
