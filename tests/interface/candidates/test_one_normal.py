"""One normal distribution of rows, with and without gaps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from pyro_crowdclust.interface.candidates import one_normal
from pyro_crowdclust.interface.candidates.one_normal import normal_of


def rows_of(number, dim, seed=0):
    rng = np.random.default_rng(seed)
    made = rng.normal(size=(number, 2)) @ rng.normal(size=(2, dim))
    rows = torch.from_numpy(made + 0.4 * rng.normal(size=(number, dim)))
    return (rows - rows.mean(0)) / rows.std(0)


def covariance_of(normal):
    return normal.factors.mT @ normal.factors + normal.residual * torch.eye(len(normal.mean))


def log_posterior(rows, normal):
    """Up to a constant: of what is seen, and of the prior of loadings and means."""
    covariance, total = covariance_of(normal), 0.0
    for row in rows:
        seen = ~row.isnan()
        if bool(seen.any()):
            part = torch.distributions.MultivariateNormal(
                normal.mean[seen], covariance[seen][:, seen]
            )
            total += float(part.log_prob(row[seen]))
    return total - float(normal.factors.square().sum() + normal.mean.square().sum()) / 2


@pytest.mark.parametrize("dim", [2, 6, 30])
def test_of_whole_rows_it_is_that_of_principal_components(dim):
    rows = rows_of(80, dim)
    normal = normal_of(rows)
    expected = PCA(min(20, dim - 1)).fit(rows.numpy()).get_covariance()
    np.testing.assert_allclose(covariance_of(normal).numpy(), expected, atol=1e-9)


def test_every_round_is_likelier(monkeypatch):
    monkeypatch.setattr(one_normal, "_FACTORS", 2)
    rows = rows_of(60, 5)
    rows[torch.rand(rows.shape, generator=torch.Generator().manual_seed(0)) < 0.3] = torch.nan
    found = []
    for rounds in (0, 1, 2, 5, 10, 40):
        monkeypatch.setattr(one_normal, "_ROUNDS", rounds)
        monkeypatch.setattr(one_normal, "_TOLERANCE", 0.0)
        found.append(log_posterior(rows, normal_of(rows)))
    assert (np.diff(found) > 0).all(), found
    assert found[-1] - found[-2] < 0.5


def test_gaps_at_random_change_the_covariance_little():
    rows = rows_of(300, 12)
    gaps = torch.rand(rows.shape, generator=torch.Generator().manual_seed(0)) < 0.2
    gaps[:50] = False  # whole rows share their posterior
    seen = rows.masked_fill(gaps, torch.nan)
    whole, partly = covariance_of(normal_of(rows)), covariance_of(normal_of(seen))
    assert float((whole - partly).abs().max()) < 0.25


def test_of_a_column_that_is_missing_nothing_is_known():
    rows = rows_of(40, 4)
    rows[:, 1] = torch.nan
    normal = normal_of(rows)
    assert float(normal.mean[1]) == 0
    np.testing.assert_allclose(normal.factors[:, 1], 0, atol=1e-12)
    assert float(normal.factors[:, [0, 2, 3]].abs().max()) > 0.3


@pytest.mark.parametrize("shape", [(5, 1), (1, 3)])
def test_one_column_or_one_row_has_no_factors(shape):
    rows = torch.arange(float(np.prod(shape)), dtype=torch.float64).reshape(shape)
    normal = normal_of(rows)
    assert normal.factors.shape == (0, shape[1])
    torch.testing.assert_close(normal.mean, rows.mean(0))


def test_rows_that_are_all_the_same_have_a_variance():
    rows = torch.ones(10, 3, dtype=torch.float64)
    rows[0, 0] = torch.nan
    normal = normal_of(rows)
    assert normal.residual > 0
    assert bool(normal.factors.isfinite().all())
