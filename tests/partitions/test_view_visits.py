"""Sweeps over two partitions, against the sum over all pairs of partitions of three items."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln

from pyro_crowdclust.partitions.two_views import SeenPairs
from pyro_crowdclust.partitions.view_visits import (
    AnswersAbout,
    TwoPartitions,
    count_views,
    visit_views,
)

LABEL = np.array([1, 0, 1, 0])
PAIRS = SeenPairs(
    np.array([0, 1, 0, 0]), np.array([1, 2, 2, 1]), np.array([0, 0, 1, 1]), LABEL == 1
)
# The evidence of both workers by label, and what counts and depends on y.
WEIGHTS = np.array([[-0.7, -1.2], [0.9, 1.5]])
COUNTED, IS_OWN = np.array([True, True, True, False]), PAIRS.worker == 1
NUM_CLUSTERS, NUM_RUNS = 2, 4000


def about():
    return AnswersAbout(PAIRS.left, PAIRS.right, PAIRS.worker, LABEL, *PAIRS.by_item)


def exact(share):
    """How often each pair of items shares a cluster of z, and of y, and how often y is z."""
    found, total = np.zeros((3, 3)), 0.0
    for states in product(range(NUM_CLUSTERS), repeat=6):
        z, y = np.array(states[:3]), np.array(states[3:])
        sizes = np.bincount(z, minlength=NUM_CLUSTERS)
        log_p = gammaln(sizes + 2 / NUM_CLUSTERS).sum()
        view = np.where(IS_OWN[:, None], y, z)
        same = view[np.arange(4), PAIRS.left] == view[np.arange(4), PAIRS.right]
        log_p += (COUNTED * same * WEIGHTS[LABEL, PAIRS.worker]).sum()
        pairs = [[one[i] == one[j] for i, j in ((0, 1), (1, 2), (0, 2))] for one in (z, y)]
        p = np.exp(log_p) * np.where(y == z, 1 - share + share / 2, share / 2).prod()
        found, total = found + p * np.array([*pairs, z == y]), total + p
    return found / total


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_sweeps_draw_from_the_posterior(share):
    rng, shape = np.random.default_rng(0), (NUM_RUNS, 3)
    z = np.zeros(shape, dtype=int)
    sizes = np.tile([3, 0], (NUM_RUNS, 1))
    views = TwoPartitions(z, z.copy(), np.zeros(shape, dtype=bool), sizes)
    masks = (np.tile(mask, (NUM_RUNS, 1)) for mask in (COUNTED, IS_OWN))
    weights, log_sizes = np.tile(WEIGHTS, (NUM_RUNS, 1, 1)), np.log(np.arange(4) + 1.0)
    counted, is_own = masks
    beliefs = weights, log_sizes, np.full(NUM_RUNS, share), views
    found, kept = np.zeros((3, 3)), 20
    for step in range(10 + kept):
        order, chance = rng.permutation(3), rng.random((*shape, 3))
        visit_views(about(), order, counted, is_own, *beliefs, chance)
        if step >= 10:
            pairs = [
                [(one[:, i] == one[:, j]).mean() for i, j in ((0, 1), (1, 2), (0, 2))]
                for one in views[:2]
            ]
            found += np.array([*pairs, (views.z == views.y).mean(0)]) / kept
    np.testing.assert_allclose(found, exact(share), atol=0.01)
    np.testing.assert_array_equal(views.sizes, [np.bincount(one, minlength=2) for one in views.z])
    if not share:
        assert not views.is_apart.any()


def test_answers_are_counted_by_what_their_worker_sees():
    views = TwoPartitions(
        np.array([[0, 0, 1]]), np.array([[0, 1, 0]]), np.zeros((1, 3), dtype=bool), np.zeros((1, 2))
    )
    counts, same, alike = np.zeros((1, 2, 2, 2)), *np.zeros((2, 1, 4), dtype=bool)
    count_views(about(), COUNTED[None], IS_OWN[None], views, counts, same, alike)
    np.testing.assert_array_equal(same, [[True, False, True, False]])
    np.testing.assert_array_equal(alike, [[False, True, False, False]])
    expected = np.zeros((1, 2, 2, 2))
    expected[0, 0, 1, 1] = expected[0, 0, 0, 0] = expected[0, 1, 1, 1] = 1
    np.testing.assert_array_equal(counts, expected)
