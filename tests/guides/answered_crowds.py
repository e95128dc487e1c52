"""Crowds that answer about pairs of sixty items, in three large clusters or thirty small ones."""

from __future__ import annotations

import numpy as np

from pyro_crowdclust import CrowdData
from pyro_crowdclust.simulation import simulate_pairs

LARGE = np.arange(60) % 3
SMALL = np.arange(60) // 2


def crowd_of(truth: np.ndarray, pairs_per_worker: int = 600, seed: int = 0) -> CrowdData:
    pairs = simulate_pairs(
        truth,
        sensitivity=[0.9, 0.8, 0.95, 0.7],
        specificity=[0.9, 0.95, 0.85, 0.8],
        pairs_per_worker=pairs_per_worker,
        seed=seed,
    )
    return CrowdData(None, pairs, item_ids=range(len(truth)))
