"""Numbers that may be at an atom."""

from __future__ import annotations

import torch

from pyro_crowdclust.families import REGISTRY

from ..oracles import random_natural


def test_numbers_at_the_atom_are_zero():
    family = REGISTRY["hurdle_normal"]
    theta = family.sample(random_natural(family))
    statistics = family.sufficient_statistics(theta).expand(50, -1)
    number, at_atom = family.sample_observation(statistics).chunk(2, -1)
    assert torch.equal(number == 0, at_atom == 1)
    assert 0 < at_atom.mean() < 1
