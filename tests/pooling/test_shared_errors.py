from __future__ import annotations

import numpy as np
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.pooling import weight_of_shared_errors
from pyro_crowdclust.pooling.shared_errors import LARGEST_WEIGHT


def crowd(seed: int, num_workers: int, share_hard: float) -> tuple[CrowdData, np.ndarray]:
    """Workers right .9, but about hard items only half of the time; and q(y) by their vote."""
    rng = np.random.default_rng(seed)
    kind, is_hard = rng.random(400) < 0.5, rng.random(400) < share_hard
    wrong = rng.random((400, num_workers)) < np.where(is_hard, 0.5, 0.1)[:, None]
    item, worker = np.indices(wrong.shape)
    says = (kind[:, None] ^ wrong).astype(int)
    labels = {"item": item.ravel(), "worker": worker.ravel(), "label": says.ravel()}
    ones = says.mean(1)
    return CrowdData(None, labels=labels), np.stack([1 - ones, ones], 1)


def test_the_weight_is_large_only_if_workers_err_together():
    weights = [
        [weight_of_shared_errors(*crowd(seed, 9, hard)) for seed in range(5)] for hard in (0, 0.3)
    ]
    independent, together = np.array(weights)
    assert independent.mean() < LARGEST_WEIGHT / 2
    assert together.min() > 0.95 * LARGEST_WEIGHT


def test_without_evidence_the_weight_is_half_of_the_largest():
    assert weight_of_shared_errors(*crowd(0, 3, 0.3)) == LARGEST_WEIGHT / 2
    few = {"item": [0, 0, 1, 1, 2, 2], "worker": list("abcdab"), "label": list("xyxxyy")}
    q = np.full((3, 2), 0.5)
    assert weight_of_shared_errors(CrowdData(None, labels=few), q) == LARGEST_WEIGHT / 2
    with pytest.raises(ValueError, match="no class labels"):
        weight_of_shared_errors(CrowdData(np.zeros((3, 1))), q)
