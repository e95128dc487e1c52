"""Numbers for tables from Betas."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from pyro_crowdclust.families import beta_summary


def test_without_mass_no_quantile_is_computed(monkeypatch):
    successes, failures = np.array([1.0, 40.0]), np.array([3.0, 0.5])
    full = beta_summary(successes, failures, 0.9)
    assert (full.lower < full.mean).all()
    assert (full.mean < full.upper).all()

    def refuse(*_):
        pytest.fail("a quantile was computed")

    monkeypatch.setattr(type(scipy.stats.beta), "_ppf", refuse)
    alone = beta_summary(successes, failures, 0.0)
    np.testing.assert_array_equal(alone.mean, full.mean)
    np.testing.assert_array_equal(alone.sd, full.sd)
    np.testing.assert_array_equal(alone.lower, full.mean)
    np.testing.assert_array_equal(alone.upper, full.mean)
