"""Rows that are nearly the same, and rows that are only near."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from pyro_crowdclust.interface.candidates.near_copies import near_copy_groups


def rows(number: int, dim: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(number, dim))


@pytest.mark.parametrize(("dim", "noise"), [(2, 0.003), (5, 0.03), (100, 0.1)])
def test_near_copies_are_of_one_group(dim, noise):
    of = np.repeat(np.arange(60), np.random.default_rng(1).integers(1, 9, 60))
    group = near_copy_groups(rows(60, dim)[of] + noise * rows(len(of), dim, seed=2))
    assert adjusted_rand_score(of, group) > 0.97


@pytest.mark.parametrize(("between", "groups"), [(14, 60), (15, 300)])
def test_a_twentieth_of_the_rows_may_be_in_the_gap(between, groups):
    """In a line: steps of 1 within sixty groups of five, and of 2.5 or 4 from one to the next."""
    steps = np.ones(300)
    steps[::5] = 4.0
    steps[5 : 10 * between : 10] = 2.5
    group = near_copy_groups(steps.cumsum()[:, None])
    assert len(np.unique(group)) == groups
    if groups == 60:
        assert adjusted_rand_score(np.repeat(np.arange(60), 5), group) == 1


@pytest.mark.parametrize(("pairs", "groups"), [(40, 80), (41, 41)])
def test_there_are_more_groups_than_clusters(pairs, groups):
    points = np.repeat(rows(pairs, 5), 2, 0) + 1e-3 * rows(2 * pairs, 5, seed=1)
    assert len(np.unique(near_copy_groups(points))) == groups
    assert near_copy_groups(points[:1]).tolist() == [0]


def clusters_of(number: int, each: int, width: float) -> np.ndarray:
    return np.repeat(rows(number, 4), each, 0) + width * rows(number * each, 4, seed=1)


ORDINARY = {
    "in a line": lambda: np.random.default_rng(0).random((600, 1)),
    "normal": lambda: rows(600, 8),
    "in many directions": lambda: rows(300, 200),
    "far from normal": lambda: np.random.default_rng(0).standard_cauchy((600, 3)),
    "log-normal": lambda: np.exp(2 * rows(600, 4)),
    "forty tight clusters": lambda: clusters_of(40, 8, 0.001),
    "sixty tight clusters of many rows": lambda: clusters_of(60, 12, 0.001),
    "many clusters": lambda: clusters_of(60, 10, 0.2),
    "one tight cluster": lambda: np.concatenate([rows(300, 3), 0.001 * rows(300, 3, 1)]),
    "few rows": lambda: clusters_of(20, 4, 0.001),
    "iris": lambda: np.unique(load_iris().data, axis=0),
    "wine": lambda: StandardScaler().fit_transform(load_wine().data),
}


@pytest.mark.parametrize("kind", ORDINARY)
def test_ordinary_rows_are_alone(kind):
    points = ORDINARY[kind]()
    assert len(np.unique(near_copy_groups(points))) == len(points)


def test_half_of_the_rows_must_have_near_copies():
    points, copies = rows(300, 5), rows(300, 5, seed=1)
    few, many = (
        np.concatenate([points, points[:number] + 1e-3 * copies[:number]]) for number in (80, 120)
    )
    assert len(np.unique(near_copy_groups(few))) == 380
    assert len(np.unique(near_copy_groups(many))) == 300
