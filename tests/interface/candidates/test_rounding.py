"""Numbers that were rounded."""

from __future__ import annotations

import numpy as np
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.candidates.rounding import have_fine_steps, unrounded


def test_rounded_numbers_are_spread_over_their_step():
    rng = np.random.default_rng(0)
    features = np.stack([rng.normal(size=200).round(1), rng.normal(size=200)], 1)
    spread = unrounded(CrowdData(features)).features
    away = spread - features
    assert np.abs(away[:, 0]).max() <= 0.05 + 1e-9
    assert away[:, 0].std() == pytest.approx(0.1 / np.sqrt(12), rel=0.1)
    assert (away[:, 1] == 0).all()
    fine = CrowdData(features[:, 1:])
    assert unrounded(fine) is fine
    features[0] = np.nan
    gaps = unrounded(CrowdData(features)).features - features
    assert np.isnan(gaps[0]).all()
    assert 0.01 < np.abs(gaps[1:, 0]).max() <= 0.05 + 1e-9
    codes = CrowdData((features[1:] > 0) * 1.0)
    assert unrounded(codes) is codes


def test_numbers_that_only_copies_share_were_not_rounded():
    rng = np.random.default_rng(3)
    rows = np.column_stack([rng.normal(size=60), rng.permutation(60) / 60])
    copies = CrowdData(np.repeat(rows, rng.integers(2, 6, 60), axis=0))
    assert have_fine_steps(copies).any()
    assert unrounded(copies) is copies
    assert not have_fine_steps(CrowdData(rows.round(1))).any()
