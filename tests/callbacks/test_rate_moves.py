"""Rates of workers that move to their posterior means after an epoch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.callbacks import RateMoves
from pyro_crowdclust.minibatches import Batch, answered_batch

from ..amortized_twin import problem
from ..crowds import amortized_pair, crowd, message_passing_pair, quiet_fit


def expected_rates(
    same: np.ndarray, batch: Batch, prior: list[list[float]]
) -> dict[str, np.ndarray]:
    """Posterior means, answer by answer; the prior's pseudo-counts are those of each rate."""
    num_workers = int(batch.worker.max()) + 1
    right, wrong = (np.repeat(one, num_workers, 1) for one in np.array(prior).T[..., None])
    all_of = right + wrong
    for s, worker, label in zip(same, batch.worker.tolist(), batch.label.tolist(), strict=True):
        right[:, worker] += s * label, (1 - s) * (1 - label)
        all_of[:, worker] += s, 1 - s
    return dict(zip(("sensitivity", "specificity"), right / all_of, strict=True))


def test_rates_move_to_their_posterior_means():
    guide, batch = problem()
    same = torch.rand(batch.num_pairs)
    guide.set_rates(same, batch)
    for name, expected in expected_rates(same.numpy(), batch, [[2.0, 1.0], [1.5, 0.7]]).items():
        np.testing.assert_allclose(guide.workers().rates[name].mean, expected, rtol=1e-12)


def test_after_an_epoch_rates_follow_the_clusters():
    data, guide = crowd(), amortized_pair()[1]
    result = quiet_fit(guide.model, guide, data, epochs=2, callbacks=[RateMoves()])
    batch = answered_batch(data).to(None, torch.float64)
    q = result.guide.infer(batch).assignments.double()
    same = (q[batch.left] * q[batch.right]).sum(-1)
    for name, expected in expected_rates(same.numpy(), batch, [[1.0, 1.0], [1.0, 1.0]]).items():
        np.testing.assert_allclose(result.workers[name], expected, rtol=1e-6)


def test_without_answers_there_are_no_rates_to_move():
    data = CrowdData(crowd().features)
    result = quiet_fit(*amortized_pair(), data, epochs=1, callbacks=[RateMoves()])
    np.testing.assert_allclose(result.guide.workers().rates["sensitivity"].mean, 0.8, atol=1e-3)


def test_a_guide_without_rates_to_move_is_refused():
    with pytest.raises(ValueError, match="MessagePassingGuide lacks one of them"):
        quiet_fit(*message_passing_pair(), crowd(), epochs=1, callbacks=[RateMoves()])
