"""Workers who are judged by clusters that they had no part in."""

from __future__ import annotations

import numpy as np
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.choosing.rereading import with_workers_heard
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.simulation import simulate_pairs

from ..small_choices import small

KINDS = np.arange(80) % 2
FEATURES = 3.0 * KINDS[:, None] + np.random.default_rng(0).normal(size=(80, 2))


@pytest.fixture(scope="module")
def silent():
    return small(CrowdData(FEATURES), 2, forms=1).fit(num_starts=1, progress=False)


def test_rates_are_counts_under_the_clusters(silent):
    said = simulate_pairs(
        KINDS, [0.9, 0.5], [0.8, 0.5], pairs_per_worker=90, items=range(40), seed=0
    )
    heard = with_workers_heard(silent, CrowdData(FEATURES, said))
    q = silent.probabilities
    same = (q[said["left"]] * q[said["right"]]).sum(1)
    label, worker = said["label"].to_numpy(), said["worker"].to_numpy()
    for one in range(2):
        s, yes = same[worker == one], label[worker == one]
        right, wrong = 2 + (s * yes).sum(), 1 + (s * (1 - yes)).sum()
        assert heard.workers["sensitivity"][one] == pytest.approx(right / (right + wrong))
        right, wrong = 2 + ((1 - s) * (1 - yes)).sum(), 1 + ((1 - s) * yes).sum()
        assert heard.workers["specificity"][one] == pytest.approx(right / (right + wrong))
    # Nobody was asked about the others.
    np.testing.assert_allclose(np.sort(heard.probabilities[40:]), np.sort(q[40:]))


def test_graded_answers_judge_workers_too(silent):
    said = simulate_pairs(KINDS, [0.9], [0.9], pairs_per_worker=90, seed=0)
    said["label"] *= 3
    heard = with_workers_heard(silent, CrowdData(FEATURES, said, grades=[0, 1, 2, 3]))
    assert np.isfinite(heard.workers.to_numpy(dtype=float)).all()
    assert (heard.assignments == silent.assignments).mean() > 0.9


def test_more_answers_may_move_the_clusters():
    """Two components of one kind become one cluster when the answers say so."""
    four = small(CrowdData(FEATURES), 4, forms=1).fit(num_starts=1, progress=False)
    said = simulate_pairs(KINDS, [0.9], [0.9], pairs_per_worker=5, seed=0)
    heard = with_workers_heard(four, CrowdData(FEATURES, said))
    more = simulate_pairs(KINDS, [0.95] * 3, [0.95] * 3, pairs_per_worker=300, seed=1)
    updated = heard.update(more)
    assert clustering_accuracy(KINDS, updated.assignments) > 0.95
