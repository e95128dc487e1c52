"""Intervals that are widened by draws."""

from __future__ import annotations

import numpy as np

from pyro_crowdclust.families import summary_of_moments
from pyro_crowdclust.inference.deviations import widened


def test_intervals_contain_their_own_where_no_beta_has_the_deviation():
    own = summary_of_moments(np.array([0.99, 0.5]), np.array([1e-4, 1e-4]), 0.9)
    mean, variance = np.array([[0.6, 0.8], [0.8, 0.2]]), np.full((2, 2), 0.01)
    found = widened(own, mean, variance, 0.9)
    np.testing.assert_allclose(found.sd[1], np.sqrt(0.1))
    assert found.sd[0] ** 2 > 0.99 * 0.01  # more than that of 0 and 1 with this mean
    assert (found.lower <= own.lower).all()
    assert (found.upper >= own.upper).all()
    assert found.upper[1] - found.lower[1] > 0.8
