"""Calibration of pairs: means and shares of the bins, where q(z) is known."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from pyro_crowdclust import CrowdData
from pyro_crowdclust.plots import plot_calibration

from ..crowds import blobs
from .pictures import NUM_ITEMS, rendered


def with_known_pairs(q: np.ndarray) -> SimpleNamespace:
    """A stand-in for a fit whose q(z) is known."""
    return SimpleNamespace(
        data=SimpleNamespace(item_ids=pd.RangeIndex(len(q)), num_items=len(q)),
        same_cluster_by_position=lambda left, right: (q[left] * q[right]).sum(1),
    )


def test_points_are_means_and_shares_of_bins():
    # Two groups of items: inside each, P(same) is 0.5; between them 0.
    rng = np.random.default_rng(0)
    group = np.arange(400) % 2
    q = np.zeros((400, 4))
    q[group == 0, :2] = q[group == 1, 2:] = 0.5
    truth = 2 * group + rng.integers(2, size=400)
    fitted = with_known_pairs(q)
    top, bottom = plot_calibration(fitted, truth).axes
    line = top.lines[1]
    np.testing.assert_allclose(line.get_xdata(), [0.0, 0.5])
    assert line.get_ydata()[0] == 0
    assert line.get_ydata()[1] == pytest.approx(0.5, abs=0.05)
    heights = np.array([bar.get_height() for bar in bottom.patches])
    assert heights.sum() == 50_000
    assert np.flatnonzero(heights).tolist() == [0, 5]
    lower, upper = top.collections[0].get_segments()[1][:, 1]
    share, count = line.get_ydata()[1], heights[5]
    interval = scipy.stats.binomtest(round(share * count), int(count)).proportion_ci(
        0.9, method="wilson"
    )
    np.testing.assert_allclose([lower, upper], [interval.low, interval.high], atol=1e-4)
    assert top.get_title().startswith("expected calibration error 0.0")
    rendered(top)


def test_of_a_real_fit(deep):
    figure = plot_calibration(deep, blobs(NUM_ITEMS)[1])
    assert figure.axes[1].get_xlabel() == "probability of being the same"
    rendered(figure)


def test_no_item_is_paired_with_itself():
    fitted = with_known_pairs(np.eye(2))
    top, _ = plot_calibration(fitted, [0, 1]).axes
    assert top.lines[1].get_xdata().tolist() == [0.0]


def test_bad_input(deep):
    with pytest.raises(ValueError, match="true_labels has 1 entries, but there are 60"):
        plot_calibration(deep, [0])
    one = SimpleNamespace(data=CrowdData(np.zeros((1, 2))))
    with pytest.raises(ValueError, match="calibration needs pairs of items"):
        plot_calibration(one, [0])
