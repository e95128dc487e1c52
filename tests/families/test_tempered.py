"""Densities that count less, against powers of those of scipy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch

from pyro_crowdclust.families import (
    GammaPoisson,
    GaussianParameters,
    HeavyTailedNumbers,
    HeavyTailedRows,
    IndependentNormals,
    NormalGamma,
    NormalInverseWishart,
    PartlyObserved,
    Tempered,
    tempered,
)

MEAN, DEVIATION = torch.tensor([[0.5, -1.0]]).double(), torch.tensor([[2.0, 0.5]]).double()
ROW = torch.tensor([[1.5, -0.2]], dtype=torch.float64)
GAP = torch.tensor([[1.5, torch.nan]], dtype=torch.float64)


def statistics_of(family) -> torch.Tensor:
    value = IndependentNormals(MEAN, DEVIATION**-2)
    if isinstance(family, NormalInverseWishart):
        value = GaussianParameters(MEAN, (DEVIATION**2).diag_embed())
    return family.sufficient_statistics(value)


@pytest.mark.parametrize(
    ("rows", "row", "density"),
    [
        (NormalInverseWishart(2), ROW, scipy.stats.norm),
        (PartlyObserved(NormalInverseWishart(2)), GAP, scipy.stats.norm),
        (PartlyObserved(NormalGamma(2)), GAP, scipy.stats.norm),
        (HeavyTailedRows(NormalInverseWishart(2), 3.0, has_gaps=True), GAP, scipy.stats.t(3)),
        (HeavyTailedNumbers(NormalGamma(2), 3.0), ROW, scipy.stats.t(3)),
        (HeavyTailedNumbers(NormalGamma(2), 3.0), GAP, scipy.stats.t(3)),
    ],
)
def test_it_is_a_power_of_the_density_with_its_constants(rows, row, density):
    """Also with gaps, of which families have their constants in different places."""
    power = tempered(rows, 0.3)
    assert power == Tempered(rows, 0.3)
    observed = power.observed(row)
    statistics = statistics_of(getattr(rows, "family", rows))
    found = power.log_likelihoods(statistics, observed) + power.log_base_measure(observed)
    away = ((row - MEAN) / DEVIATION).numpy()
    expected = 0.3 * np.nansum(density.logpdf(away) - DEVIATION.log().numpy() * (away == away))
    assert float(found) == pytest.approx(expected)


def test_one_is_the_density_itself_and_draws_are_of_it():
    family = GammaPoisson(1)
    assert tempered(family, 1.0) is family
    statistics = family.sufficient_statistics(torch.tensor([3.0])).expand(2000, 2)
    drawn = tempered(family, 0.2).sample_observation(statistics)
    assert float(drawn.mean()) == pytest.approx(3.0, abs=0.2)
