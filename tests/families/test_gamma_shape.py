"""The shape of a Wishart, against bisection and its first term."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import torch

from pyro_crowdclust.families.gamma_shape import multivariate_shape


@pytest.mark.parametrize("dim", [1, 2, 30])
@pytest.mark.parametrize("excess", [1e-3, 0.5, 20.0, 1e4])
def test_the_shape_is_the_root_that_bisection_finds(dim, excess):
    shape = (dim - 1) / 2 + excess
    halves = np.arange(dim) / 2

    def gap(a):
        return dim * np.log(a) - scipy.special.digamma(a - halves).sum()

    found = multivariate_shape(torch.tensor(gap(shape), dtype=torch.float64), dim)
    low, high = (dim - 1) / 2 + excess / 2, (dim - 1) / 2 + 2 * excess
    root = scipy.optimize.brentq(lambda a: gap(a) - gap(shape), low, high, xtol=1e-12)
    assert found.item() == pytest.approx(root, rel=1e-6)


@pytest.mark.parametrize("dim", [1, 3])
def test_the_shape_of_nearly_a_point_is_that_of_the_first_term(dim):
    gap = torch.tensor([3e-9, 1e-8], dtype=torch.float64)
    expected = dim * (dim + 1) / (4 * gap)
    torch.testing.assert_close(multivariate_shape(gap, dim), expected, rtol=1e-4, atol=0.0)
