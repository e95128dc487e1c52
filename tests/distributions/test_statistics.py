"""Sites whose values are sufficient statistics: priors, and what all have in common."""

from __future__ import annotations

import pytest
import torch
from pyro import poutine
from pyro.infer import MCMC, NUTS
from pyro.infer.autoguide import AutoDelta, AutoDiagonalNormal, AutoNormal

from pyro_crowdclust import CrowdData
from pyro_crowdclust.distributions import (
    Assignment,
    ComponentObservation,
    ConjugateAtMean,
    GaussianAtMean,
    LatentObservation,
    SameCluster,
    TwoCoinAnswer,
)
from pyro_crowdclust.distributions.at_mean import Point
from pyro_crowdclust.distributions.statistics import Conjugate
from pyro_crowdclust.families import (
    REGISTRY,
    Beta,
    Dirichlet,
    Gaussian,
    Moments,
    NormalInverseWishart,
)
from pyro_crowdclust.minibatches import Batch, full_batch

from ..comparisons import same
from ..crowds import plain_pair
from ..oracles import log_density, random_natural
from .expectations import mixture, worker_rates

every_family = pytest.mark.parametrize("family", REGISTRY.values(), ids=REGISTRY.keys())


@every_family
def test_conjugate_draws_the_statistics_of_a_real_value(family):
    eta = random_natural(family, 5)
    torch.manual_seed(3)
    theta = family.sample(eta)
    torch.manual_seed(3)
    value = Conjugate(family, eta).rsample()
    same(value, family.sufficient_statistics(theta))


def test_conjugate_draws_lie_where_statistics_can_lie():
    draws = Conjugate(Dirichlet(3), random_natural(Dirichlet(3), 50)).rsample()
    same(draws.exp().sum(-1), torch.ones(50))
    draws = Conjugate(Beta(), random_natural(Beta(), 50)).rsample()
    same(draws.exp().sum(-1), torch.ones(50))
    family = NormalInverseWishart(2)
    draws = Conjugate(family, random_natural(family, 50)).rsample()
    linear, quadratic = family.local.unpack(draws)
    precision = -2 * quadratic
    mean = torch.linalg.solve(precision, linear)
    same(draws[:, -2], -(mean * linear).sum(-1) / 2)
    same(draws[:, -1], torch.logdet(precision) / 2)


@every_family
@pytest.mark.parametrize("make", [Conjugate, ConjugateAtMean])
def test_log_prob_at_a_real_value_is_that_of_scipy(family, make):
    eta = random_natural(family, 4)
    theta = [family.sample(row) for row in eta]
    value = torch.stack([family.sufficient_statistics(one) for one in theta])
    ours = make(family, eta).log_prob(value)
    expected = [log_density(family, row, one) for row, one in zip(eta, theta, strict=True)]
    same(ours, torch.tensor(expected), 1e-9)


@every_family
def test_expand_repeats_a_prior(family):
    eta = random_natural(family)
    repeated = Conjugate(family, eta).expand([3])
    assert repeated.batch_shape == (3,)
    value = repeated.rsample()
    assert value.shape == (3, family.size)
    assert (value[0] != value[1]).any()
    same(repeated.log_prob(value), Conjugate(family, eta).log_prob(value))


def test_expand_to_the_same_shape_is_no_new_distribution():
    """Posteriors recognize their own value, so a plate must not copy them."""
    for distribution in every_distribution():
        assert distribution.expand(distribution.batch_shape) is distribution


def every_distribution() -> list:
    family = Gaussian(2)
    eta = random_natural(family, 4)
    niw, theta = mixture(3, 2)
    q = torch.randn(4, 3).softmax(-1)
    rates = worker_rates(0.8, 0.8, 0.8, 0.8)
    return [
        Conjugate(family, eta),
        ConjugateAtMean(family, eta),
        GaussianAtMean(family.moments(eta)),
        Point(torch.randn(4, 2)),
        Assignment(torch.randn(4, 3)),
        ComponentObservation(niw, niw.sufficient_statistics(theta), q, niw.observation_size),
        LatentObservation(niw, niw.sufficient_statistics(theta), q, Moments.size(2)),
        SameCluster(q, torch.arange(4), torch.arange(4).flip(0), 4),
        TwoCoinAnswer(torch.ones(4), rates, rates),
    ]


def test_shapes_are_those_that_pyro_expects():
    for distribution in every_distribution():
        value = distribution.sample()
        assert value.shape == distribution.batch_shape + distribution.event_shape, distribution
        assert distribution.log_prob(value).shape == distribution.batch_shape == (4,), distribution


def test_a_site_holds_one_draw():
    for distribution in every_distribution():
        with pytest.raises(NotImplementedError, match="draws one value per site: use a plate"):
            distribution.sample((2,))


def a_batch() -> Batch:
    return full_batch(CrowdData(torch.randn(6, 2, dtype=torch.float64)))


def by_autoguide(make) -> None:
    model, _ = plain_pair()
    make(poutine.block(model, hide=["z"]))(a_batch())


def by_nuts(_) -> None:
    model, _ = plain_pair()
    MCMC(NUTS(model), num_samples=1, warmup_steps=0, disable_progbar=True).run(a_batch())


@pytest.mark.parametrize(
    ("run", "make"),
    [(by_autoguide, kind) for kind in (AutoDelta, AutoNormal, AutoDiagonalNormal)]
    + [(by_nuts, None)],
)
def test_there_are_no_coordinates_for_autoguides_and_nuts(run, make):
    """Their density grows without bound along vectors that are statistics of nothing."""
    with pytest.raises(ValueError, match=r"fit a model of this library with one of its guides"):
        run(make)
