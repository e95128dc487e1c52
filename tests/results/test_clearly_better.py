"""Which mean is larger by more than chance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from pyro_crowdclust.results.clearly_better import error_of_mean, is_clearly_better


@pytest.mark.parametrize("made", [np.array, torch.tensor])
@pytest.mark.parametrize(("mean", "is_clear"), [(0.95, False), (1.05, True)])
def test_clearly_better_is_by_two_standard_errors(made, mean, is_clear):
    """Of four answers, half of their deviation each."""
    one, other = made([1.0, -1.0, -1.0, 1.0]), made([-3.0, -1.0, -2.0, -4.0])
    assert is_clearly_better(other + mean + one, other) == is_clear
    assert is_clearly_better(other + mean + one, other, errors=1.8)
    assert not is_clearly_better(other, other + mean + one, errors=0.0)


def test_the_error_of_a_mean():
    values = np.random.default_rng(0).normal(size=20)
    assert error_of_mean(values) == pytest.approx(stats.sem(values, ddof=0))
