"""Who is asked about, and rates and pages that there cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from pyro_crowdclust.simulation import simulate_pairs

from .unequal_crowds import CROWDS, pages_crowd, pairs_crowd, partitions_crowd


@pytest.mark.parametrize("crowd", CROWDS)
def test_items_restricts_who_is_asked_about(crowd):
    asked = np.random.default_rng(1).choice(90, 40, replace=False)
    size = {"pairs_per_worker": 300} if crowd is pairs_crowd else {}
    frame = crowd(items=asked, **size)
    assert set(frame["left"]) | set(frame["right"]) == set(asked)


@pytest.mark.parametrize("crowd", [pages_crowd, partitions_crowd])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pages_per_worker": 0}, "pages_per_worker is 0, but must be at least 1"),
        ({"page_size": 1}, "page_size is 1, but must be at least 2"),
        ({"page_size": 91}, "a page of 91 distinct items cannot be filled from 90"),
    ],
)
def test_bad_pages_are_refused(crowd, changes, message):
    with pytest.raises(ValueError, match=message):
        crowd(**changes)


@pytest.mark.parametrize(
    ("sensitivity", "specificity", "message"),
    [
        ([0.9, 1.1], [0.9, 0.9], "sensitivity row 1 is 1.1, but must be between 0 and 1"),
        ([0.9], [float("nan")], "specificity row 0 is nan"),
        ([0.9, 0.9], [0.9], "sensitivity has 2 and specificity has 1"),
        (0.9, 0.9, "one probability per worker"),
        ([], [], "one probability per worker"),
    ],
)
def test_bad_rates_are_refused(sensitivity, specificity, message):
    with pytest.raises(ValueError, match=message):
        simulate_pairs([0, 1], sensitivity, specificity, pairs_per_worker=1, seed=0)
