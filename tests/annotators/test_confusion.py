"""What counts of answers say of workers and their communities, rates summed out."""

from __future__ import annotations

import numpy as np
import scipy.special
import scipy.stats

from pyro_crowdclust.annotators.confusion import _log_marginal


def test_counts_have_the_density_of_dirichlet_multinomials():
    rng = np.random.default_rng(0)
    counts, concentration = rng.integers(0, 9, (5, 3, 4)).astype(float), rng.random((3, 4)) + 0.2
    expected = np.zeros(5)
    for worker, k in np.ndindex(5, 3):
        own = counts[worker, k].astype(int)
        expected[worker] += scipy.stats.dirichlet_multinomial(concentration[k], own.sum()).logpmf(
            own
        )
        # In one order of the answers, not in any.
        orders = scipy.special.gammaln(own.sum() + 1) - scipy.special.gammaln(own + 1).sum()
        expected[worker] -= orders
    np.testing.assert_allclose(_log_marginal(counts, concentration), expected)
