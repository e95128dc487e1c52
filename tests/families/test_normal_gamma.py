"""Independent normals, against full Gaussians."""

from __future__ import annotations

import torch

from pyro_crowdclust.families import NormalGamma, NormalInverseWishart

from ..comparisons import same
from ..oracles import random_natural, random_standard


def test_one_normal_gamma_is_the_normal_inverse_wishart_in_one_dimension():
    location, concentration, shape, rate = random_standard(NormalGamma(1), 6)
    ours, theirs = NormalGamma(1), NormalInverseWishart(1)
    eta = ours.natural(location, concentration, shape, rate)
    scale, degrees = (2 * rate).unsqueeze(-1), 2 * shape.squeeze(-1)
    other = theirs.natural(location, concentration.squeeze(-1), scale, degrees)
    same(ours.log_normalizer(eta), theirs.log_normalizer(other))
    same(ours.full(ours.expected_statistics(eta)), theirs.expected_statistics(other))


def test_independent_normals_are_gaussian():
    """``<full(t), u_NIW(x)> = <t, u(x)>`` for points, and for latents with spread."""
    family, full = NormalGamma(3), NormalInverseWishart(3)
    statistics = family.sufficient_statistics(family.sample(random_natural(family, 4)))
    x = torch.randn(4, 3)
    ours = (statistics * family.observation_statistics(x)).sum(-1)
    embedded = family.full(statistics)
    same((embedded * full.observation_statistics(full.observed(x))).sum(-1), ours)
    assert full.sample_observation(embedded).shape == (4, full.observation_size)
