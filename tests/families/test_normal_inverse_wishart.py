"""Draws of covariances whose scale is nearly singular."""

from __future__ import annotations

import torch

from pyro_crowdclust.families import NormalInverseWishart


def test_covariances_of_one_item_in_large_units_have_a_root():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        x = 1e6 * torch.randn(200, 5, dtype=torch.float64)
        scale = 5 * torch.eye(5, dtype=torch.float64) + x.unsqueeze(2) * x.unsqueeze(1)
        family, one = NormalInverseWishart(5), torch.ones(200, dtype=torch.float64)
        drawn = family.sample(family.natural(0 * x, one, scale, 8 * one))
    assert drawn.mean.isfinite().all()
    assert (torch.linalg.cholesky_ex(drawn.covariance).info == 0).all()
