"""Regressions, against Gaussians around their lines and sums over rows."""

from __future__ import annotations

import torch
from torch import Tensor

from pyro_crowdclust.families import (
    GaussianParameters,
    MatrixNormalInverseWishart,
    NormalInverseWishart,
)

from ..comparisons import same
from ..oracles import random_natural


def test_components_of_a_regression_are_gaussians_around_its_lines():
    family = MatrixNormalInverseWishart(2, num_regressors=3)
    coefficients, covariance = theta = family.sample(random_natural(family))
    regressors = torch.randn(5, 3)
    gaussians = GaussianParameters(regressors @ coefficients, covariance.expand(5, 2, 2))
    found = family.component(family.sufficient_statistics(theta), regressors)
    same(found, NormalInverseWishart(2).sufficient_statistics(gaussians))


def test_regressors_that_are_changed_change_their_sums():
    family = MatrixNormalInverseWishart(2, num_regressors=3)
    rows, regressors, change = torch.randn(6, 2), torch.randn(6, 3), torch.randn(3, 3)

    def sums(regressors: Tensor) -> Tensor:
        parts = regressors.mT @ rows, regressors.mT @ regressors, rows.mT @ rows
        return torch.cat([*(part.flatten() for part in parts), torch.tensor([6.0])])

    same(family.with_regressors(sums(regressors), change), sums(regressors @ change.mT))
