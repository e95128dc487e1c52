from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pyro
import pytest
import scipy.stats
import torch
from pyro import poutine
from pyro.infer import MCMC, NUTS
from pyro.infer.autoguide import AutoDelta, AutoDiagonalNormal, AutoNormal
from pyro.infer.inspect import get_model_relations
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.distributions import (
    Assignment,
    ComponentObservation,
    ConjugateAtMean,
    GaussianAtMean,
    SameCluster,
    TwoCoinAnswer,
)
from pyro_crowdclust.distributions import pairs as pair_distributions
from pyro_crowdclust.distributions.statistics import Conjugate, Point
from pyro_crowdclust.families import (
    REGISTRY,
    Beta,
    Dirichlet,
    Gaussian,
    GaussianParameters,
    Moments,
    NormalInverseWishart,
)
from pyro_crowdclust.minibatches import Batch, full_batch

from ..crowds import plain_pair
from ..oracles import log_density, random_covariance, random_natural

every_family = pytest.mark.parametrize("family", REGISTRY.values(), ids=REGISTRY.keys())


def same(actual: Tensor, expected: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def random_moments(*batch: int, dim: int) -> Moments:
    """Any mean, and an upper triangular root of any covariance."""
    precision = torch.linalg.cholesky(random_covariance(*batch, dim=dim))
    return Moments.with_root(torch.randn(*batch, dim), torch.linalg.inv(precision).mT)


def expectation(function: Callable[[Tensor], Tensor], moments: Moments) -> Tensor:
    """E[f(x)] of a quadratic f under a Gaussian, exactly: 2 d points that share its moments."""
    dim = moments.mean.shape[-1]
    shifts = math.sqrt(dim) * moments.root
    points = [moments.mean + sign * shifts[..., j] for j in range(dim) for sign in (1, -1)]
    return sum(function(x) for x in points) / len(points)


def full_normal(moments: Moments) -> torch.distributions.MultivariateNormal:
    covariance = moments.root @ moments.root.mT
    return torch.distributions.MultivariateNormal(moments.mean, covariance)


def unit(index: int, size: int) -> Tensor:
    return torch.eye(size)[index]


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
def test_posterior_at_its_mean(family):
    eta, prior = random_natural(family, 4), random_natural(family, 4)
    posterior = ConjugateAtMean(family, eta)
    mean = posterior.rsample()
    same(mean, family.expected_statistics(eta))
    same(posterior.log_prob(mean), -family.entropy(eta))
    elbo = Conjugate(family, prior).log_prob(mean) - posterior.log_prob(mean)
    same(elbo, -family.kl_divergence(eta, prior))


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


def test_gaussian_at_its_own_moments_is_minus_the_entropy():
    moments = random_moments(4, dim=3)
    posterior = GaussianAtMean(moments)
    value = posterior.rsample()
    normal = full_normal(moments)
    same(posterior.log_prob(value), -normal.entropy())
    same(posterior.log_prob(value.clone()), -normal.entropy())


def test_gaussian_at_other_moments_is_the_expected_log_density():
    own, other = random_moments(4, dim=3), random_moments(4, dim=3)
    normal = full_normal(own)
    ours = GaussianAtMean(own).log_prob(other.flat())
    same(ours, expectation(normal.log_prob, other))
    at_a_point = GaussianAtMean(own).log_prob(Moments.point(other.mean).flat())
    same(at_a_point, normal.log_prob(other.mean))


def test_point():
    value = torch.randn(4, 2)
    same(Point(value).rsample(), value)
    same(Point(value).log_prob(value), torch.zeros(4))
    log_density = torch.randn(4)
    same(Point(value, log_density).log_prob(value), log_density)


def test_assignment_of_a_real_value():
    log_weights = torch.randn(5, 3).log_softmax(-1)
    z = torch.tensor([0, 2, 1, 1, 0])
    ours = Assignment(log_weights).log_prob(torch.eye(3)[z])
    same(ours, torch.distributions.Categorical(logits=log_weights).log_prob(z))


def test_assignment_at_the_mean_is_the_expectation():
    log_weights, q = torch.randn(5, 3), torch.randn(5, 3).softmax(-1)
    distribution = Assignment(log_weights)
    expected = sum(q[:, k] * distribution.log_prob(unit(k, 3).expand(5, 3)) for k in range(3))
    same(distribution.log_prob(q), expected)


@pytest.mark.parametrize("rows", [(), (1,), (5,)])
def test_an_assignment_that_was_expanded_weighs_values_of_all_shapes(rows):
    log_weights = torch.randn(*rows, 3)
    expanded = Assignment(log_weights).expand([5])
    q, repeated = torch.randn(5, 3).softmax(-1), log_weights.expand(5, 3)
    same(expanded.log_prob(q), (repeated * q).sum(-1))
    same(expanded.log_prob(expanded.enumerate_support(expand=False)), repeated.T)


@pytest.mark.parametrize("expand", [True, False])
def test_assignment_support(expand):
    support = Assignment(torch.randn(5, 3)).enumerate_support(expand=expand)
    assert support.shape == (3, 5 if expand else 1, 3)
    for k in range(3):
        assert (support[k] == unit(k, 3)).all()


def test_assignment_draws_have_the_weights():
    weights = torch.tensor([0.2, 0.5, 0.3])
    distribution = Assignment(weights.log()).expand([20_000])
    z = distribution.sample()
    assert (z.sum(-1) == 1).all()
    same(distribution.log_prob(z), (z @ weights).log())
    error = (weights * (1 - weights) / 20_000).sqrt()
    assert ((z.mean(0) - weights).abs() < 6 * error).all()


def mixture(num_clusters: int, dim: int) -> tuple[NormalInverseWishart, GaussianParameters]:
    family = NormalInverseWishart(dim)
    return family, family.sample(random_natural(family, num_clusters))


def test_component_observation_of_real_values():
    family, theta = mixture(3, 2)
    z = torch.tensor([0, 2, 1, 1])
    x = torch.randn(4, 2)
    statistics = family.sufficient_statistics(theta)
    likelihood = ComponentObservation(family, statistics, torch.eye(3)[z], family.observation_size)
    ours = likelihood.log_prob(Moments.point(x).flat())
    for row, k in enumerate(z):
        expected = scipy.stats.multivariate_normal.logpdf(
            x[row].numpy(), theta.mean[k].numpy(), theta.covariance[k].numpy()
        )
        assert ours[row].item() == pytest.approx(expected, abs=1e-10)


def test_component_observation_at_means_is_the_expectation():
    """Over z, over two possible worlds of theta, and over x."""
    worlds = [mixture(3, 2) for _ in range(2)]
    family = worlds[0][0]
    chance = [0.3, 0.7]
    q, moments = torch.randn(4, 3).softmax(-1), random_moments(4, dim=2)
    mean = sum(
        p * family.sufficient_statistics(theta)
        for p, (_, theta) in zip(chance, worlds, strict=True)
    )
    likelihood = ComponentObservation(family, mean, q, family.observation_size)
    expected = torch.zeros(4)
    for p, (_, theta) in zip(chance, worlds, strict=True):
        for k in range(3):
            normal = torch.distributions.MultivariateNormal(theta.mean[k], theta.covariance[k])
            expected += p * q[:, k] * expectation(normal.log_prob, moments)
    same(likelihood.log_prob(moments.flat()), expected)


def test_component_observation_draws_from_its_cluster():
    family, theta = mixture(2, 2)
    statistics = family.sufficient_statistics(theta)
    z = torch.eye(2)[torch.arange(20_000) % 2]
    likelihood = ComponentObservation(family, statistics, z, family.observation_size)
    x = likelihood.rsample()
    assert x.shape == (20_000, family.observation_size)
    moments = Moments.of(x)
    assert not moments.root.any()
    for k in range(2):
        own = moments.mean[k::2]
        error = (theta.covariance[k].diagonal() / len(own)).sqrt()
        assert ((own.mean(0) - theta.mean[k]).abs() < 6 * error).all()


def test_component_observation_expands_its_assignments():
    family, theta = mixture(3, 2)
    statistics = family.sufficient_statistics(theta)
    q = torch.randn(3).softmax(-1)
    x = random_moments(4, dim=2).flat()
    one = ComponentObservation(family, statistics, q, family.observation_size)
    many = one.expand([4])
    assert many.batch_shape == (4,)
    assert many.event_shape == one.event_shape
    same(many.log_prob(x), one.log_prob(x))


def worker_rates(*rates: float) -> Tensor:
    return Beta().sufficient_statistics(torch.tensor(rates))


def test_two_coin_answer_of_real_values():
    alpha, beta = 0.8, 0.65
    for same_cluster, label in itertools.product([0.0, 1.0], [0.0, 1.0]):
        answer = TwoCoinAnswer(
            torch.tensor([same_cluster]), worker_rates(alpha), worker_rates(beta)
        )
        yes = alpha if same_cluster else 1 - beta
        expected = scipy.stats.bernoulli.logpmf(int(label), yes)
        assert answer.log_prob(torch.tensor([label])).item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_two_coin_answer_at_means_is_the_expectation(label):
    """Over both ends' clusters and over possible rates, all independent."""
    left, right = torch.randn(2, 3).softmax(-1)
    alphas, betas = {0.9: 0.25, 0.6: 0.75}, {0.8: 0.5, 0.3: 0.5}
    expected = 0.0
    for i, j in itertools.product(range(3), repeat=2):
        for (alpha, p), (beta, r) in itertools.product(alphas.items(), betas.items()):
            yes = alpha if i == j else 1 - beta
            weight = left[i] * right[j] * p * r
            expected += weight.item() * scipy.stats.bernoulli.logpmf(int(label), yes)
    sensitivity = sum(p * worker_rates(alpha) for alpha, p in alphas.items())
    specificity = sum(p * worker_rates(beta) for beta, p in betas.items())
    answer = TwoCoinAnswer((left @ right)[None], sensitivity, specificity)
    assert answer.log_prob(torch.tensor([label])).item() == pytest.approx(expected, abs=1e-12)


def test_two_coin_answers_are_drawn_with_their_rates():
    together = (torch.arange(20_000) % 2).double()
    answer = TwoCoinAnswer(
        together, worker_rates(0.85).expand(20_000, 2), worker_rates(0.7).expand(20_000, 2)
    )
    label = answer.rsample()
    error = math.sqrt(0.25 / 10_000)
    assert abs(label[1::2].mean().item() - 0.85) < 6 * error
    assert abs(label[::2].mean().item() - 0.3) < 6 * error


@pytest.mark.parametrize("matrix_limit", [0, 1024])
def test_same_cluster_is_the_agreement_of_both_ends(matrix_limit, monkeypatch):
    monkeypatch.setattr(pair_distributions, "_MATRIX_LIMIT", matrix_limit)
    q = torch.randn(5, 3).softmax(-1).requires_grad_()
    left, right = torch.tensor([0, 3, 3, 1, 0]), torch.tensor([2, 0, 1, 3, 2])
    pairs = SameCluster(q, left, right, 4)
    value = pairs.rsample()
    expected = torch.stack([q[i] @ q[j] for i, j in zip(left, right, strict=True)])
    same(value, expected)
    slope = torch.randn(5)
    ours, theirs = (
        torch.autograd.grad((slope * agreement).sum(), q)[0] for agreement in (value, expected)
    )
    same(ours, theirs)
    # The item plate has counted z already.
    same(pairs.log_prob(value), torch.zeros(5))


def test_same_cluster_of_real_assignments():
    z = torch.eye(3)[torch.tensor([0, 1, 1, 2])]
    pairs = SameCluster(z, torch.tensor([0, 1, 2]), torch.tensor([1, 2, 3]), 4)
    assert pairs.rsample().tolist() == [0.0, 1.0, 0.0]
    codes = SameCluster(z.argmax(-1), torch.tensor([0, 1, 2]), torch.tensor([1, 2, 3]), 4)
    assert codes.rsample().tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("is_code", [False, True])
def test_a_graph_of_pyro_shows_what_same_cluster_depends_on(is_code):
    ends = torch.tensor([0, 1]), torch.tensor([1, 2])
    identity = torch.eye(3).double()

    def model() -> None:
        owners = pyro.sample("owners", pyro.distributions.Normal(identity, 1.0).to_event(2))
        with pyro.plate("items", 4):
            z = pyro.sample("z", pyro.distributions.Categorical(torch.ones(3)))
        z = z if is_code else identity[z]
        with pyro.plate("pairs", 2):
            pyro.sample("same", SameCluster(z, *ends, 4, None if is_code else owners))

    found = get_model_relations(model)["sample_sample"]["same"]
    assert found == (["z"] if is_code else ["owners", "z"])


def test_same_cluster_refuses_an_enumerated_assignment():
    """All items share one enumeration dimension, so z[i] == z[j] would always be true."""

    def model() -> None:
        with pyro.plate("items", 4, dim=-1):
            z = pyro.sample("z", Assignment(torch.zeros(4, 3)), infer={"enumerate": "parallel"})
        with pyro.plate("pairs", 2, dim=-1):
            pyro.sample("same", SameCluster(z, torch.tensor([0, 1]), torch.tensor([1, 2]), 4))

    poutine.trace(model).get_trace()
    with pytest.raises(ValueError, match="z is enumerated.*must sample the site 'same'"):
        poutine.trace(poutine.enum(model, first_available_dim=-2)).get_trace()


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
