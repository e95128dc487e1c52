from __future__ import annotations

import numpy as np
import scipy

from pyro_crowdclust.data.soft_counts import (
    classes_at_rate,
    log_shares_of,
    rate_of_all,
    soft_counts,
    states_given,
)

NUM_ITEMS, NUM_WORKERS, NUM_CLASSES = 7, 4, 3


def drawn():
    """Weighted answers as a table [item, worker, label], and as the matrix S; and a q."""
    rng = np.random.default_rng(0)
    table = rng.random((NUM_ITEMS, NUM_WORKERS, NUM_CLASSES)) * (rng.random((7, 4, 3)) < 0.6)
    q = rng.dirichlet(np.ones(NUM_CLASSES), NUM_ITEMS)
    return table, scipy.sparse.csr_matrix(table.reshape(NUM_ITEMS, -1)), q


def test_counts_and_classes_are_the_sums_of_their_formulas():
    table, matrix, q = drawn()
    np.testing.assert_allclose(soft_counts(matrix, q), np.einsum("ik,ijl->jkl", q, table))
    rows = np.random.default_rng(1).dirichlet(np.ones(NUM_CLASSES), (NUM_WORKERS, 5))
    shares = np.arange(1.0, 6.0) / 15
    expected = shares * np.exp(np.einsum("ijl,jkl->ik", table, np.log(rows)))
    found = states_given(matrix, np.log(shares), np.log(rows))
    np.testing.assert_allclose(found, expected / expected.sum(1, keepdims=True))


def test_one_rate_is_a_confusion_matrix_of_all_workers():
    table, matrix, q = drawn()
    votes, rate = table.sum(1), 0.7
    row = np.full((NUM_CLASSES, NUM_CLASSES), 0.15) + 0.55 * np.eye(NUM_CLASSES)
    log_rows = np.log(np.tile(row, (NUM_WORKERS, 1, 1)))
    expected = states_given(matrix, log_shares_of(q), log_rows)
    np.testing.assert_allclose(classes_at_rate(votes, log_shares_of(q), rate), expected)
    counts = soft_counts(matrix, q).sum(0)
    assert np.isclose(rate_of_all(votes, q, 4, 2), (counts.trace() + 4) / (counts.sum() + 6))
