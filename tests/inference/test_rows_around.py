from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta, betabinom

from pyro_crowdclust import CrowdData
from pyro_crowdclust.inference import rows_around, rows_of_drawn_classes
from pyro_crowdclust.inference.rows_around import STRENGTHS

# A worker who is like the others, one who mixes up two labels, and one of whom nothing is known.
COUNTS = np.array([[19.0, 1.0], [10.0, 12.0], [0.0, 0.0]])
EXPECTED = np.full((3, 2), [0.9, 0.1])


def test_one_row_has_the_posterior_of_a_mixture_of_betas():
    """Of a single row, pi is found by its fixed point, the rest by quadrature."""
    right, number = 10, 22
    evidence = betabinom(number, 0.9 * STRENGTHS, 0.1 * STRENGTHS).pmf(right)
    pi = np.full(len(STRENGTHS), 1 / len(STRENGTHS))
    for _ in range(30):
        share = evidence * pi / (evidence @ pi)
        pi = (share + 2 / len(STRENGTHS)) / 3
    parts = [beta(0.9 * c + right, 0.1 * c + number - right) for c in STRENGTHS]
    exact = [
        sum(
            w * quad(lambda g, p=p, power=power: g**power * p.pdf(g), 0, 1)[0]
            for w, p in zip(share, parts, strict=True)
        )
        for power in (1, 2)
    ]
    found = rows_around(EXPECTED[1:2], COUNTS[1:2])
    np.testing.assert_allclose([found.mean[0, 0], found.square[0, 0]], exact, rtol=1e-6)
    np.testing.assert_allclose(found.mean.sum(-1), 1)


def test_a_row_that_differs_is_seen_and_an_unknown_one_is_open():
    alike = np.tile(COUNTS[:1], (20, 1))
    counts = np.concatenate([alike, COUNTS])
    mean, square = rows_around(np.full(counts.shape, EXPECTED[0]), counts)
    deviation = np.sqrt(square - mean**2)
    assert mean[21, 1] > 0.4
    assert deviation[21, 1] < 0.15
    np.testing.assert_allclose(mean[22], EXPECTED[0])
    assert deviation[22, 0] > 1.3 * deviation[0, 0]
    assert abs(mean[0, 1] - 0.1) < 0.05


@pytest.mark.parametrize("strength", [4.0, 32.0])
def test_intervals_hold_rows_that_are_drawn(strength):
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(strength * np.array([0.7, 0.2, 0.1]), 400)
    counts = np.array(
        [rng.multinomial(n, row) for n, row in zip(rng.integers(1, 30, 400), rows, strict=True)]
    )
    mean, square = rows_around(np.full(rows.shape, [0.7, 0.2, 0.1]), counts.astype(float))
    scaled = (rows - mean) / np.sqrt(square - mean**2)
    assert 0.86 < (abs(scaled) < 1.645).mean() < 0.95


def test_classes_that_are_known_are_counted():
    labels = {"item": [0, 0, 1, 2], "worker": list("abab"), "label": list("xxyx")}
    data = CrowdData(None, labels=labels)
    q = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    counts = np.array([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]])
    expected = np.broadcast_to([[0.8, 0.2], [0.2, 0.8]], (2, 2, 2))
    rng = np.random.default_rng(0)
    found = rows_of_drawn_classes(expected, data.class_labels, q, rng)
    np.testing.assert_allclose(found, rows_around(expected, counts))
    doubtful = rows_of_drawn_classes(expected, data.class_labels, np.full((3, 2), 0.5), rng)
    assert not np.allclose(doubtful.mean, found.mean)
