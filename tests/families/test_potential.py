"""What a recognition network says of a latent, against the quadratic form that it is."""

from __future__ import annotations

import torch

from pyro_crowdclust.families import Gaussian

from ..oracles import random_potential


def test_natural_parameters_are_those_of_the_quadratic_form():
    """``<r(o), t(x)> = h^T x - x^T diag(lambda) x / 2``."""
    potential, x = random_potential(5, 3), torch.randn(5, 3)
    statistics = Gaussian(3).sufficient_statistics(x)
    expected = (potential.linear * x).sum(-1) - (potential.precision * x.square()).sum(-1) / 2
    found = (potential.natural_parameters() * statistics).sum(-1)
    torch.testing.assert_close(found, expected)
