"""What is known of rates, as counts of answers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators.channels import Channels
from pyro_crowdclust.asking.worker_counts import (
    accuracy_counts,
    agreement_counts,
    best_reading,
    beta_counts,
    grade_counts,
    limited_by_decisions,
)
from pyro_crowdclust.simulation import simulate_pages, simulate_placements

TRUTH = np.arange(60) % 3
PAGES = {"pages_per_worker": 2, "page_size": 6}
COUNTS = np.array([[[24.0, 6.0], [54.0, 6.0]], [[2.0, 1.0], [10.0, 10.0]]])


def test_sorted_pages_are_as_many_counts_as_decisions():
    """Two pages of six items: ten decisions, and thirty answers about pairs."""
    pages = simulate_placements(TRUTH, [0.9, 0.8], seed=0, **PAGES)
    data = CrowdData(None, placements=pages).as_pairs()
    assert data.answers_per_worker.tolist() == [30, 30]
    found = limited_by_decisions(COUNTS, data)
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
        assert limited_by_decisions(COUNTS, one) is COUNTS


def test_workers_without_rates_count_by_the_clusters():
    """Two answers of a worker about pairs that are together in .8 and .3 of the cases."""
    rows = [(0, 1, "ann", 1), (0, 2, "ann", 1), (0, 1, "bob", 0)]
    data = CrowdData(None, pd.DataFrame(rows, columns=["left", "right", "worker", "label"]))
    together = {(0, 1): 0.8, (0, 2): 0.3}

    def same(left, right):
        return np.array([together[pair] for pair in zip(left, right, strict=True)])

    found = agreement_counts(SimpleNamespace(data=data, same_cluster_by_position=same))
    ann = [[3 + 0.8 + 0.3, 1.0], [3.0, 1 + 0.2 + 0.7]]
    bob = [[3.0, 1 + 0.8], [3 + 0.2, 1.0]]
    np.testing.assert_allclose(found, [ann, bob])


def test_rates_have_the_betas_of_their_moments():
    mean, sd = np.array([0.9, 0.6, 0.3, 0.999]), np.array([0.05, 0.2, 0.01, 0.02])
    right, wrong = beta_counts(mean, sd).T
    np.testing.assert_allclose(stats.beta(right, wrong).mean(), mean)
    np.testing.assert_allclose(stats.beta(right, wrong).std(), sd)
    # Of what is known for certain there are many counts, of what nobody knows half a one.
    found = beta_counts(np.array([0.8, 0.8, 1.0]), np.array([np.nan, 0.4, 1e-3]))
    expected = [[0.8 * 1.6e7, 0.2 * 1.6e7], [0.4, 0.1], [0.999 * 998, 0.001 * 998]]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


GRADES = np.array([[[6.0, 3.0, 1.0], [1.0, 4.0, 5.0]], [[2.0, 2.0, 4.0], [4.0, 3.0, 3.0]]])


def test_grades_are_read_as_what_they_are_likelier_of():
    """The second worker's first and second grades are likelier of pairs that are the same."""
    right = (best_reading(GRADES) * GRADES).sum(-1)
    np.testing.assert_allclose(right, [[6.0, 9.0], [4.0, 7.0]])


def test_grades_of_who_has_not_answered_are_those_of_all():
    mean = GRADES / GRADES.sum(-1, keepdims=True)
    # The deviations of Dirichlets with so many counts.
    total = np.array([[40.0, 10.0], [25.0, 8.0]])
    sd = np.sqrt(mean * (1 - mean) / (total[..., None] + 1))
    found = grade_counts(Channels(mean, sd), np.array([1, -1, 0]))
    np.testing.assert_allclose(found[[2, 0]], mean * total[..., None])
    np.testing.assert_allclose(found[1], 4 * (mean[0] + mean[1]) / 2)


def test_the_accuracy_of_placements_cannot_be_read_off_the_clusters():
    with pytest.raises(ValueError, match="no accuracy, .* with SortedPages"):
        accuracy_counts(SimpleNamespace(rates={}))
