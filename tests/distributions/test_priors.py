"""A prior that is changed, as one that is learned is."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.distributions import ConjugatePosterior, ConjugatePrior
from pyro_crowdclust.distributions.priors import set_to_counts
from pyro_crowdclust.families import Beta

from ..oracles import random_natural


def test_a_prior_that_was_changed_has_the_density_of_the_new_one():
    family = Beta()
    prior = ConjugatePrior(family, random_natural(family), plate_size=3)
    eta = random_natural(family)
    prior.set_natural_parameters(eta)
    value = family.sufficient_statistics(family.sample(random_natural(family, 3)))
    found = prior.distribution().log_prob(value)
    torch.testing.assert_close(found, value @ eta - family.log_normalizer(eta))
    with pytest.raises(ValueError, match="outside the domain"):
        prior.set_natural_parameters(-2 * torch.ones(2))
    torch.testing.assert_close(prior.distribution().log_prob(value), found)


def test_given_counts_the_posterior_of_a_share_is_the_conjugate_one():
    family = Beta()
    priors = {name: ConjugatePrior(family, torch.tensor([1.0, 0.5]), 3) for name in "ab"}
    posteriors = {name: ConjugatePosterior(prior) for name, prior in priors.items()}
    counts = torch.tensor([[0.0, 2.0], [1.5, 0.0], [3.0, 4.0]])
    set_to_counts(posteriors, priors, {"a": counts})
    found = posteriors["a"].standard()
    torch.testing.assert_close(found.successes, 2.0 + counts[:, 0].double())
    torch.testing.assert_close(found.failures, 1.5 + counts[:, 1].double())
    assert torch.equal(posteriors["b"].natural_parameters, priors["b"].natural_parameters)


@pytest.mark.parametrize("plate", [None, 3])
def test_priors_of_the_same_numbers_are_changed_one_by_one(plate):
    family = Beta()
    eta = random_natural(family, *filter(None, [plate]))
    before = eta.clone()
    one, other = (ConjugatePrior(family, eta, plate, start=eta) for _ in range(2))
    one.set_natural_parameters(eta + 1)
    assert torch.equal(eta, before)
    assert torch.equal(other.natural_parameters, before)
    eta += 2
    assert torch.equal(other.natural_parameters, before)
    assert torch.equal(other.start, before)
