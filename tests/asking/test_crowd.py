"""What is known of the workers who can be asked."""

from __future__ import annotations

import numpy as np
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.asking.crowd import _of_decisions
from pyro_crowdclust.simulation import simulate_pages, simulate_placements

TRUTH = np.arange(60) % 3
PAGES = {"pages_per_worker": 2, "page_size": 6}
COUNTS = np.array([[[24.0, 6.0], [54.0, 6.0]], [[2.0, 1.0], [10.0, 10.0]]])


def test_sorted_pages_are_as_many_counts_as_decisions():
    """Two pages of six items: ten decisions, and thirty answers about pairs."""
    pages = simulate_placements(TRUTH, [0.9, 0.8], seed=0, **PAGES)
    data = CrowdData(None, placements=pages).as_pairs()
    assert data.answers_per_worker.tolist() == [30, 30]
    found = _of_decisions(COUNTS, data)
    # Four are those of a stranger.
    expected = [[4 + 26 / 3, 4 + 56 / 3], [3.0, 4 + 16 / 3]]
    assert found.sum(-1) == pytest.approx(np.array(expected))
    assert found[..., 0] / found.sum(-1) == pytest.approx(COUNTS[..., 0] / COUNTS.sum(-1))


def test_answers_that_are_no_sorted_pages_are_decisions_themselves():
    rates = [0.8, 0.7]
    answers = simulate_pages(TRUTH, rates, rates, seed=0, **PAGES)
    data = CrowdData(None, answers, item_ids=range(60))
    assert not data.is_sorted
    for one in (data, CrowdData(None, answers.drop(columns="page"), item_ids=range(60))):
        assert _of_decisions(COUNTS, one) is COUNTS
