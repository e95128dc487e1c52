"""Point estimates of conjugate sites: where they are, and where they are put."""

from __future__ import annotations

import pyro
import pytest
import scipy.stats
import torch
from torch import nn

from pyro_crowdclust.distributions import ConjugatePrior, PointEstimate
from pyro_crowdclust.distributions.at_mean import Point
from pyro_crowdclust.families import (
    REGISTRY,
    Beta,
    BetaBernoulli,
    Dirichlet,
    DirichletCategorical,
    GammaPoisson,
    NormalGamma,
    ProductFamily,
)

from ..oracles import is_conjugate_prior, random_natural


@pytest.mark.parametrize("family", [Beta(), NormalGamma(2)], ids=str)
def test_an_estimate_is_where_it_was_put(family):
    point = PointEstimate(ConjugatePrior(family, random_natural(family), plate_size=4))
    theta = family.sample(random_natural(family, 4))
    point.set_value(theta)
    torch.testing.assert_close(point.value(), theta)
    torch.testing.assert_close(point.statistics(), family.sufficient_statistics(theta))


@pytest.mark.parametrize(
    ("family", "free"),
    [
        (Beta(), [0]),
        (BetaBernoulli(2), [0, 1]),
        (Dirichlet(3), [0, 1]),
        (DirichletCategorical((2, 3)), [0, 2, 3]),
        (GammaPoisson(2), [0, 1]),
        (ProductFamily((Beta(), NormalGamma(1))), None),
    ],
    ids=str,
)
def test_the_coordinates_of_a_mode_have_their_jacobian(family, free):
    """Of shares all but the last are free."""
    unconstrained = torch.randn(family.unconstrained_size)
    found = family.log_coordinates(
        family.sufficient_statistics(family.from_unconstrained(unconstrained))
    )
    if free is None:  # a part without others
        free, family, unconstrained = [0], family.families[0], unconstrained[:1]
    values = torch.autograd.functional.jacobian(family.from_unconstrained, unconstrained)
    jacobian = values.reshape(-1, len(unconstrained))[free][:, free]
    torch.testing.assert_close(found, torch.linalg.slogdet(jacobian).logabsdet)


def test_a_mode_under_a_concentration_below_one():
    """``(alpha_k + n_k) / sum``, also of a share that nothing was counted for."""
    family, counts = Dirichlet(3), torch.tensor([3.0, 1.0, 0.0])
    prior = ConjugatePrior(family, family.natural(torch.full((3,), 0.5)))
    point = PointEstimate(prior, maximum_a_posteriori=True)
    optimizer = torch.optim.LBFGS(point.parameters(), max_iter=100, tolerance_grad=1e-9)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        site = point.distribution()
        statistics = site.rsample()
        log_joint = prior.distribution().log_prob(statistics) + statistics @ counts
        negative = site.log_prob(statistics) - log_joint
        negative.backward()
        return negative

    optimizer.step(loss)
    torch.testing.assert_close(point.value(), (counts + 0.5) / 5.5)


@pytest.mark.parametrize("name", REGISTRY)
def test_point_estimates_make_the_round_trip(name):
    family = REGISTRY[name]
    plate = 4
    if not is_conjugate_prior(family):
        return
    size = family.unconstrained_size
    prior = ConjugatePrior(family, random_natural(family, plate), plate)
    point = PointEstimate(prior)
    value = family.sample(prior.natural_parameters)
    point.set_value(value)
    assert point.unconstrained.shape == (plate, size)
    torch.testing.assert_close(tuple(point.value()), tuple(value), rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(
        point.statistics(), family.sufficient_statistics(value), rtol=1e-8, atol=1e-8
    )
    anywhere = nn.init.normal_(point.unconstrained)
    again = family.to_unconstrained(point.value())
    torch.testing.assert_close(
        family.sufficient_statistics(family.from_unconstrained(again)),
        family.sufficient_statistics(family.from_unconstrained(anywhere)),
    )
    assert point.statistics().isfinite().all()


@pytest.mark.parametrize("maximum_a_posteriori", [True, False])
def test_the_site_of_a_point_estimate(maximum_a_posteriori):
    family = Beta()
    prior = ConjugatePrior(family, family.natural(torch.tensor(3.0), torch.tensor(2.0)), 2)
    point = PointEstimate(prior, maximum_a_posteriori)
    rates = torch.tensor([0.9, 0.3])
    point.set_value(rates)
    with pyro.plate("workers", 2):
        site = point.distribution()
        assert isinstance(site, Point)
        value = pyro.sample("rate", site)
    torch.testing.assert_close(value, torch.stack([rates.log(), (1 - rates).log()], -1))
    expected = -(rates * (1 - rates)).log()
    if not maximum_a_posteriori:
        expected = torch.tensor(scipy.stats.beta(3, 2).logpdf(rates.numpy()))
    torch.testing.assert_close(site.log_prob(value), expected)
