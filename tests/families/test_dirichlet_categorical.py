"""Categorical columns, against a Dirichlet each."""

from __future__ import annotations

import torch

from pyro_crowdclust.families import Dirichlet, DirichletCategorical

from ..comparisons import same
from ..oracles import random_natural


def test_a_categorical_column_is_a_dirichlet():
    family, columns = DirichletCategorical((2, 3)), (Dirichlet(2), Dirichlet(3))
    eta = random_natural(family, 4)
    parts = eta.split((2, 3), -1)
    normalizers = [column.log_normalizer(part) for column, part in zip(columns, parts, strict=True)]
    same(family.log_normalizer(eta), sum(normalizers))
    expected = [(part + 1) / (part + 1).sum(-1, keepdim=True) for part in parts]
    same(family.mean(eta), torch.cat(expected, -1))
