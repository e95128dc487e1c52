"""The small fits that are exported, and what is read from an export."""

from __future__ import annotations

from functools import partial

import numpy as np

from pyro_crowdclust import CrowdData

from ..crowds import amortized_pair, message_passing_pair, plain_pair

NUM_ITEMS = 40
IDS = [f"item-{(7 * i) % NUM_ITEMS:02d}" for i in range(NUM_ITEMS)]
MAKERS = {
    "plain": partial(plain_pair),
    "deep": message_passing_pair,
    "amortized": amortized_pair,
}
DRAWS = 40


def one_chain(tree, group: str, name: str) -> np.ndarray:
    values = tree[group][name]
    assert values.sizes["chain"] == 1
    return values.values[0]


def separated(num_items: int = 60) -> CrowdData:
    """Clouds so far apart that z is known."""
    rng = np.random.default_rng(1)
    centers = np.array([[-60.0, 0.0], [60.0, 0.0], [0.0, 90.0]])
    return CrowdData(centers[np.arange(num_items) % 3] + rng.standard_normal((num_items, 2)))
