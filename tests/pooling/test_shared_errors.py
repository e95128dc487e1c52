from __future__ import annotations

import numpy as np
import pytest
import torch

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


def sparse_crowd(seed: int, per_item: int, share_hard: float) -> tuple[CrowdData, np.ndarray]:
    """Sixty workers, of whom each item has a few, so that no two share thirty items."""
    data, q = crowd(seed, 60, share_hard)
    labels = data.class_labels
    order = np.random.default_rng(seed).random(len(labels)).reshape(400, 60)
    kept = (order.argsort(1).argsort(1) < per_item).ravel()
    return data.with_class_labels(labels.at(torch.from_numpy(kept))), q


def test_all_pairs_together_tell_where_no_two_workers_share_many_items():
    """Weights were half of the largest in all of these crowds."""
    independent, together = (
        np.array([weight_of_shared_errors(*sparse_crowd(seed, 8, hard)) for seed in range(4)])
        for hard in (0, 0.3)
    )
    assert independent.min() == 0.2
    assert independent.mean() < 0.45 * LARGEST_WEIGHT
    assert together.min() > 0.9 * LARGEST_WEIGHT


def test_three_labels_an_item_show_no_shared_errors():
    """Three independent workers can explain any agreement: then classes are theirs."""
    weights = [weight_of_shared_errors(*sparse_crowd(seed, 3, 0.3)) for seed in range(4)]
    assert np.mean(weights) < 0.45 * LARGEST_WEIGHT


def test_without_evidence_the_weight_is_half_of_the_largest():
    assert weight_of_shared_errors(*crowd(0, 3, 0.3)) == LARGEST_WEIGHT / 2
    few = {"item": range(6), "worker": list("abcdab"), "label": list("xyxxyy")}
    q = np.full((6, 2), 0.5)
    assert weight_of_shared_errors(CrowdData(None, labels=few), q) == LARGEST_WEIGHT / 2
    with pytest.raises(ValueError, match="no class labels"):
        weight_of_shared_errors(CrowdData(np.zeros((3, 1))), q)
