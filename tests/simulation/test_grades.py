"""Grades of pairs, by the evidence that a worker sees."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from pyro_crowdclust.simulation import simulate_grades

LABELS = np.random.default_rng(0).integers(3, size=200)
CUTS = np.array([[-1.0, 0.2, 0.9], [-0.5, 0.0, 2.0]])


def test_shares_of_grades_are_those_of_the_evidence():
    sharpness, doubt, number = [2.5, 0.5], 0.3, 5000
    frame = simulate_grades(
        LABELS, sharpness, CUTS, doubt=doubt, pairs_per_worker=number, balanced=True, seed=0
    )
    same = LABELS[frame["left"]] == LABELS[frame["right"]]
    for worker, (sharp, cuts) in enumerate(zip(sharpness, CUTS, strict=True)):
        for is_same, mean in ((True, sharp / 2), (False, -sharp / 2)):
            said = frame["label"][(frame["worker"] == worker) & (same == is_same)]
            unsure = np.ptp(norm.cdf([cuts[1] - doubt, cuts[1] + doubt], mean))
            error = 4 * 0.5 / np.sqrt(len(said))
            assert said.isna().mean() == pytest.approx(unsure, abs=error)
            ends = [-np.inf, cuts[0], cuts[1] - doubt, cuts[1] + doubt, cuts[2], np.inf]
            shares = np.diff(norm.cdf(ends, mean))[[0, 1, 3, 4]]
            found = [(said == grade).mean() for grade in (1, 2, 3, 4)]
            np.testing.assert_allclose(found, shares, atol=error)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sharpness": [np.nan, 1.0]}, "sharpness must be finite"),
        ({"sharpness": [1.0]}, "must have one row and sharpness one number per worker"),
        ({"thresholds": CUTS[:, ::-1]}, "thresholds of worker 0 do not ascend"),
        ({"thresholds": [[0.0], [np.nan]]}, "thresholds of worker 1 do not ascend"),
        ({"doubt": [0.1, 0.2, 0.3]}, "doubt must be one number, or one for each of 2 workers"),
        ({"doubt": -1.0}, "not negative"),
    ],
)
def test_bad_input(wrong, message):
    arguments = {"sharpness": [1.0, 1.0], "thresholds": CUTS} | wrong
    with pytest.raises(ValueError, match=message):
        simulate_grades(LABELS, **arguments, pairs_per_worker=5, seed=0)
