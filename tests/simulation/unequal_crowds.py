"""Crowds that answer about three classes of unequal size, and what their rates may be."""

from __future__ import annotations

import numpy as np
from scipy import stats

from pyro_crowdclust.simulation import simulate_pages, simulate_pairs, simulate_partitions

SENSITIVITY = [0.95, 0.6, 0.3]
SPECIFICITY = [0.9, 0.75, 0.99]


def unequal_labels(num_items=90):
    """Three classes of unequal size in no order, named by strings."""
    sizes = [num_items // 2, num_items // 3, num_items - num_items // 2 - num_items // 3]
    return np.random.default_rng(11).permutation(np.repeat(["ant", "bee", "cow"], sizes))


def pairs_crowd(seed=0, **changes):
    arguments = {"pairs_per_worker": 1000, **changes}
    return simulate_pairs(unequal_labels(), SENSITIVITY, SPECIFICITY, seed=seed, **arguments)


def pages_crowd(seed=0, **changes):
    arguments = {"pages_per_worker": 8, "page_size": 12, **changes}
    return simulate_pages(unequal_labels(), SENSITIVITY, SPECIFICITY, seed=seed, **arguments)


def partitions_crowd(seed=0, **changes):
    arguments = {"pages_per_worker": 8, "page_size": 12, **changes}
    return simulate_partitions(unequal_labels(), [0.0, 0.2, 0.6], seed=seed, **arguments)


CROWDS = [pairs_crowd, pages_crowd, partitions_crowd]


def within_binomial(rate, probability, count):
    """Whether a rate over `count` answers is no outlier, at a level of one in a million."""
    low, high = stats.binom.interval(1 - 1e-6, count, probability)
    return low <= round(rate * count) <= high
