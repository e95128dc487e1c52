"""Two far groups of six kinds, and fits that advice is given about."""

from __future__ import annotations

import dataclasses

import numpy as np

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import cluster
from pyro_crowdclust.mixture import GaussianComponents
from pyro_crowdclust.simulation import simulate_pairs

from ..small_choices import small

FINE = np.arange(120) % 12  # twelve kinds, in two far groups of six
FEATURES = 30.0 * (FINE % 2)[:, None] + np.random.default_rng(0).normal(size=(120, 2))
PAIRS = simulate_pairs(FINE, [0.95] * 3, [0.95] * 3, pairs_per_worker=300, seed=0)


def fixed(features, pairs=None, **options):
    """A fit without a choice."""
    return cluster(features, pairs, components=GaussianComponents, progress=False, **options)


def chosen(features, pairs, *sizes):
    """A fit with a small choice."""
    choice = small(CrowdData(features, pairs), *sizes)
    by_features = dataclasses.replace(choice.by_features, first_size=sizes[-1])
    choice = dataclasses.replace(choice, first_size=sizes[-1], by_features=by_features)
    return choice.fit(num_starts=1, progress=False)


def chosen_without(features, *sizes):
    """The same without answers."""
    choice = dataclasses.replace(small(CrowdData(features), *sizes), first_size=sizes[-1])
    return choice.fit(num_starts=1, progress=False)
