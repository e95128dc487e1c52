"""Probabilities of yes/no features that are all but certain."""

from __future__ import annotations

import torch

from pyro_crowdclust.families import BetaBernoulli


def test_a_probability_that_is_nearly_one_has_a_logarithm_of_the_rest():
    family = BetaBernoulli(2)
    drawn = family.sample(family.natural(torch.tensor([1e20, 1.0]), torch.ones(2)))
    assert drawn[0] > 1 - 1e-15
    assert family.sufficient_statistics(drawn).isfinite().all()
