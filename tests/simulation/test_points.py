"""The Pinwheel."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pyro_crowdclust.simulation import pinwheel


def test_pinwheel_has_shuffled_arms_of_equal_size():
    features, labels = pinwheel(seed=0)
    assert features.shape == (500, 2)
    assert features.dtype == np.float64
    assert labels.dtype == np.int64
    assert np.bincount(labels).tolist() == [100] * 5
    assert (np.diff(labels) < 0).any()


def test_pinwheel_follows_its_formula():
    # Turning every item back by its arm's angle must give r ~ N(1, 0.3^2) and s ~ N(0, 0.05^2).
    features, labels = pinwheel(4, 5000, rate=0.0, seed=1)
    angle = 2 * np.pi * labels / 4
    radial = (features[:, 0] * np.cos(angle) - features[:, 1] * np.sin(angle)) / 10
    tangential = (features[:, 0] * np.sin(angle) + features[:, 1] * np.cos(angle)) / 10
    assert stats.kstest(radial, stats.norm(1, 0.3).cdf).pvalue > 1e-6
    assert stats.kstest(tangential, stats.norm(0, 0.05).cdf).pvalue > 1e-6


def test_pinwheel_bends_outer_items_more():
    features, _ = pinwheel(1, 2000, radial_std=0.1, tangential_std=0.0, rate=0.25, seed=2)
    radius = np.hypot(*features.T) / 10
    angle = np.arctan2(-features[:, 1], features[:, 0])
    np.testing.assert_allclose(angle, 0.25 * np.exp(radius), atol=1e-9)


def test_pinwheel_depends_on_its_seed_only():
    for again, first in zip(pinwheel(seed=3), pinwheel(seed=3), strict=True):
        np.testing.assert_array_equal(again, first)
    assert not np.array_equal(pinwheel(seed=3)[0], pinwheel(seed=4)[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_clusters": 0}, "num_clusters"),
        ({"num_per_cluster": -1}, "num_per_cluster"),
        ({"radial_std": -1.0}, "must not be negative"),
        ({"tangential_std": float("nan")}, "must not be negative"),
    ],
)
def test_bad_pinwheels_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        pinwheel(seed=0, **changes)
