"""The member of a family at a given mean, against the mean that it was made from."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.distributions import ConjugatePrior
from pyro_crowdclust.families import Beta, Dirichlet, natural_at_mean


@pytest.mark.parametrize(
    ("family", "eta"),
    [
        (Beta(), torch.tensor([-0.7, 4.0], dtype=torch.float64)),
        (Beta(), torch.tensor([300.0, 9.0], dtype=torch.float64)),
        (Dirichlet(4), torch.tensor([0.5, 3.0, -0.4, 20.0], dtype=torch.float64)),
    ],
)
@pytest.mark.parametrize("start", [0.0, 15.0, -0.9])
def test_finds_the_parameters_that_have_the_mean(family, eta, start):
    found = natural_at_mean(family, family.expected_statistics(eta), torch.full_like(eta, start))
    torch.testing.assert_close(found, eta, rtol=1e-6, atol=1e-6)


def test_prior_of_many_draws_is_near_the_one_that_they_are_from():
    torch.manual_seed(0)
    family, eta = Beta(), torch.tensor([5.0, 1.0], dtype=torch.float64)
    draws = family.sufficient_statistics(family.sample(eta.expand(20_000, 2)))
    found = natural_at_mean(family, draws.mean(0), torch.zeros_like(eta))
    torch.testing.assert_close(found, eta, rtol=0.05, atol=0.05)


def test_where_no_step_helps_the_result_may_be_written_to_the_start(monkeypatch):
    """As of a prior that is the likeliest already, but for rounding."""
    eta = torch.tensor([[7.0, 1.0]], dtype=torch.float64)
    prior = ConjugatePrior(Beta(), eta.expand(3, 2).clone(), 3)
    mean = Beta().expected_statistics(torch.tensor([3.0, 2.0], dtype=torch.float64))
    with monkeypatch.context() as patch:
        patch.setattr(Beta, "in_domain", lambda self, point: torch.tensor(False))
        found = natural_at_mean(Beta(), mean, prior.natural_parameters[0])
    prior.set_natural_parameters(found)
    torch.testing.assert_close(prior.natural_parameters, eta.expand(3, 2))
