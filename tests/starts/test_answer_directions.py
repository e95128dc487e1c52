"""Directions that answers see: their expectation, and what they find where nothing else does."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import subspace_angles

from pyro_crowdclust.metrics import adjusted_rand_index
from pyro_crowdclust.starts import answer_directions, partition_along

MEANS = np.array([[3.0, 0, 0, 0, 0], [-1.5, 2.5, 0, 0, 0], [-1.5, -2.5, 0, 0, 0]])


def crowd(num_pairs: int, sensitivity: float, specificity: float, seed: int = 0):
    """Items of three clusters in five dimensions, each in one pair; points, kinds and pairs."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 3, 2 * num_pairs)
    points = torch.from_numpy(MEANS[kinds] + rng.normal(size=(2 * num_pairs, 5)))
    left, right = torch.arange(0, 2 * num_pairs, 2), torch.arange(1, 2 * num_pairs, 2)
    yes = np.where(kinds[left] == kinds[right], sensitivity, 1 - specificity)
    label = torch.from_numpy((rng.random(num_pairs) < yes).astype(float))
    return points, kinds, (left, right, label)


def test_products_of_rows_are_the_share_of_what_answers_tell_that_means_hold():
    """x_i' D x_j with D its expectation, by the means and the covariance of the mixture."""
    points, _, pairs = crowd(200_000, 0.9, 0.8)
    along = answer_directions(points, *pairs)
    assert along.shape[1] == 2  # one less than there are clusters
    shares, middle = np.full(3, 1 / 3), MEANS.mean(0)
    between = (MEANS - middle).T @ np.diag(shares) @ (MEANS - middle)
    white = np.linalg.inv(np.eye(5) + between)
    told = (0.9 + 0.8 - 1) * (MEANS - middle).T @ np.diag(shares**2) @ (MEANS - middle)
    centered = (points[:40] - points.mean(0)).numpy()
    expected = centered @ white @ told @ white @ centered.T
    found = (along[:40] @ along[:40].mT).numpy()
    np.testing.assert_allclose(found, expected, atol=0.03 * np.abs(expected).max())


def test_few_answers_show_the_plane_of_the_means():
    points, kinds, pairs = crowd(500, 0.9, 0.9)
    along = answer_directions(points, *pairs)
    centered = (points - points.mean(0)).numpy()
    coefficients = np.linalg.lstsq(centered, along.numpy(), rcond=None)[0]
    assert np.rad2deg(subspace_angles(coefficients, np.eye(5)[:, :2])).max() < 20
    groups = partition_along(along, max_groups=8, generator=torch.Generator().manual_seed(0))
    assert adjusted_rand_index(groups.numpy(), kinds) > 0.7


def test_where_the_coordinates_point_and_end_does_not_matter():
    points, _, pairs = crowd(300, 0.9, 0.9)
    axes = torch.linalg.qr(torch.randn(5, 5, generator=torch.Generator().manual_seed(3)))[0]
    mixed = 3 * points @ axes.double() + 7
    one, other = answer_directions(points, *pairs), answer_directions(mixed, *pairs)
    torch.testing.assert_close(one @ one.mT, other @ other.mT, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("same", [0.0, 1.0])
def test_answers_that_are_all_the_same_leave_one_direction(same: float):
    points, _, (left, right, label) = crowd(50, 0.9, 0.9)
    along = answer_directions(points, left, right, torch.full_like(label, same))
    assert along.shape == (100, 1)
    assert bool(along.isfinite().all())


def test_items_that_are_all_alike_are_one_group():
    _, _, pairs = crowd(50, 0.9, 0.9)
    along = answer_directions(torch.ones(100, 5).double(), *pairs)
    groups = partition_along(along, max_groups=4, generator=torch.Generator())
    assert len(groups.unique()) == 1
