"""Every family of the registry, against scipy, torch, autograd and draws."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from pyro_crowdclust.families import (
    REGISTRY,
    Beta,
    BetaBernoulli,
    Categorical,
    Dirichlet,
    DirichletCategorical,
    ExponentialFamily,
    GammaPoisson,
    Gaussian,
    MatrixNormalInverseWishart,
    NormalGamma,
    NormalInverseWishart,
    ProductFamily,
    gaussian,
)

from ..comparisons import assert_mean, same
from ..oracles import (
    expected_observation_statistics,
    is_conjugate_prior,
    log_density,
    log_likelihood,
    log_marginal,
    random_natural,
    random_standard,
    torch_distribution,
    torch_has,
)

PRIORS = {name: family for name, family in REGISTRY.items() if is_conjugate_prior(family)}
COMPONENTS = {name: PRIORS[name] for name in PRIORS if name not in ("beta", "dirichlet")}
KNOWN_TO_TORCH = {name: family for name, family in REGISTRY.items() if torch_has(family)}

every_family = pytest.mark.parametrize("family", REGISTRY.values(), ids=REGISTRY.keys())
every_prior = pytest.mark.parametrize("family", PRIORS.values(), ids=PRIORS.keys())


def rows(value: Any, index: tuple[int, ...]) -> Any:
    """One entry of a batch of tensors or of (named) tuples of them."""
    if not isinstance(value, tuple):
        return value[index]
    parts = [rows(part, index) for part in value]
    return tuple(parts) if type(value) is tuple else type(value)(*parts)


def test_conjugate_priors_are_found():
    assert REGISTRY.keys() - PRIORS.keys() == {
        *("categorical", "gaussian", "matrix_normal_inverse_wishart")
    }


@every_family
def test_expected_statistics_are_the_gradient_of_the_log_normalizer(family):
    eta = random_natural(family, 7).requires_grad_()
    (gradient,) = torch.autograd.grad(family.log_normalizer(eta).sum(), eta)
    same(family.expected_statistics(eta.detach()), gradient)


@every_family
def test_mean_and_log_normalizer_at_once_are_those_of_each(family):
    eta = random_natural(family, 7)
    mean, log_normalizer = family.mean_and_log_normalizer(eta)
    same(mean, family.expected_statistics(eta))
    same(log_normalizer, family.log_normalizer(eta))
    same(family.log_normalizer_at_mean(eta, mean), log_normalizer)


@every_family
def test_standard_and_natural_are_inverse(family):
    standard = random_standard(family, 7)
    eta = family.natural(*standard)
    assert eta.shape == (7, family.size)
    same(tuple(family.standard(eta)), standard)
    same(family.natural(*family.standard(eta)), eta)


@every_family
def test_log_density_is_that_of_scipy(family):
    eta = random_natural(family, 8)
    value = family.sample(eta)
    ours = (eta * family.sufficient_statistics(value)).sum(-1) - family.log_normalizer(eta)
    for row in range(8):
        expected = log_density(family, eta[row], rows(value, (row,)))
        assert ours[row].item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@every_family
def test_sampler_has_the_expected_statistics_and_their_covariance(family):
    eta = random_natural(family)
    samples = family.sufficient_statistics(family.sample(eta.expand(20_000, family.size)))
    mean = family.expected_statistics(eta)
    assert_mean(samples, mean)
    # Cov[t] is the Hessian of log Z, which a draw without its spread would miss.
    hessian = torch.autograd.functional.hessian(family.log_normalizer, eta)
    direction = torch.randn(family.size)
    assert_mean(((samples - mean) @ direction).square(), direction @ hessian @ direction)


@every_family
def test_variance_of_a_direction_is_that_of_the_hessian(family):
    eta = random_natural(family)
    hessian = torch.autograd.functional.hessian(family.log_normalizer, eta)
    directions = torch.randn(5, family.size)
    expected = torch.einsum("di,ij,dj->d", directions, hessian, directions)
    rows = eta.repeat(5, 1)
    same(family.variance(rows, directions), expected, tolerance=1e-8)
    assert not rows.requires_grad
    with torch.inference_mode():
        same(family.variance(rows * 1, directions * 1), expected, tolerance=1e-8)


@every_family
def test_entropy_and_kl_by_monte_carlo(family):
    eta, other = random_natural(family, 2)
    statistics = family.sufficient_statistics(family.sample(eta.expand(20_000, family.size)))
    log_q = statistics @ eta - family.log_normalizer(eta)
    log_p = statistics @ other - family.log_normalizer(other)
    assert_mean(-log_q, family.entropy(eta))
    assert_mean(log_q - log_p, family.kl_divergence(eta, other))


@pytest.mark.parametrize("family", KNOWN_TO_TORCH.values(), ids=KNOWN_TO_TORCH.keys())
def test_entropy_and_kl_are_those_of_torch(family):
    eta, other = random_natural(family, 6), random_natural(family, 6)
    q, p = torch_distribution(family, eta), torch_distribution(family, other)
    same(family.entropy(eta), q.entropy(), 1e-9)
    same(family.kl_divergence(eta, other), torch.distributions.kl_divergence(q, p), 1e-9)


@every_family
def test_kl_divergences(family):
    eta, other = random_natural(family, 6), random_natural(family, 6)
    assert (family.kl_divergence(eta, other) > 0).all()
    same(family.kl_divergence(eta, eta), torch.zeros(6))


def _outside(family: ExponentialFamily) -> dict[str, Tensor]:
    """One legal row pushed out of the domain in every way there is, beside NaN and infinity."""
    eta = random_natural(family)

    def changed(index: int, value: float) -> Tensor:
        row = eta.clone()
        row[index] = value
        return row

    if isinstance(family, Dirichlet | Beta | DirichletCategorical | BetaBernoulli):
        return {"zero pseudo-count": changed(0, -1.0), "negative": changed(1, -1.5)}
    if isinstance(family, Categorical):
        return {"no category can occur": torch.full_like(eta, -torch.inf)}
    if isinstance(family, GammaPoisson):
        return {"no shape": changed(0, -1.0), "no rate": changed(-1, 0.0)}
    if isinstance(family, NormalGamma):
        return {
            "no concentration": changed(2 * family.dim, 0.0),
            "no shape": changed(-1, -1.0),
            "no rate": changed(family.dim, -0.1),
            "rate below its square": changed(0, 1e3),
        }
    if isinstance(family, ProductFamily):
        parts, outside = list(family.split(eta)), {}
        for index, factor in enumerate(family.families):
            for reason, part in _outside(factor).items():
                mixed = torch.cat([*parts[:index], part, *parts[index + 1 :]])
                outside[f"{reason} in {factor}"] = mixed
        return outside
    if isinstance(family, MatrixNormalInverseWishart):
        products = family.num_regressors * family.dim
        return {
            "no precision": changed(products, 0.0),
            "far away": changed(0, 1e4),
            "degrees at their limit": changed(-1, 2.0 * family.dim + family.num_regressors),
        }
    dim = family.dim
    positive = eta.clone()
    positive[dim : dim + dim**2] *= -1
    if isinstance(family, Gaussian):
        flat = eta.clone()
        flat[dim : dim + dim**2] = 0
        indefinite = changed(dim, 10.0)
        return {"negative precision": positive, "no precision": flat, "indefinite": indefinite}
    if isinstance(family, NormalInverseWishart):
        far = eta.clone()
        far[0] += 1e3
        return {
            "negative scale": positive,
            "scale below its outer product": far,
            "no concentration": changed(-2, 0.0),
            "negative concentration": changed(-2, -1.0),
            "degrees at their limit": changed(-1, 2.0 * dim + 1),
        }
    raise NotImplementedError(f"say how {family} can leave its domain")


@every_family
def test_domain(family):
    inside = random_natural(family, 5)
    outside = _outside(family)
    for value in (math.nan, math.inf):
        for index in range(family.size):
            row = random_natural(family)
            row[index] = value
            outside[f"{value} at {index}"] = row
    assert family.in_domain(inside).all()
    for reason, row in outside.items():
        assert not family.in_domain(row), reason
        # A bad row says nothing of its neighbours.
        mixed = torch.stack([inside[0], row, inside[1]])
        assert family.in_domain(mixed).tolist() == [True, False, True], reason


@pytest.mark.parametrize(
    ("family", "lowest"),
    [
        (NormalInverseWishart(3), 7.0),
        (MatrixNormalInverseWishart(2, num_regressors=3), 7.0),
        (NormalGamma(2), -1.0),
        (Dirichlet(4), -1.0),
        (GammaPoisson(2), 0.0),
    ],
    ids=str,
)
def test_the_domain_ends_where_the_density_has_no_integral(family, lowest):
    eta = random_natural(family, 2)
    eta[:, -1] = lowest + torch.tensor([1e-6, -1e-6])
    assert family.in_domain(eta).tolist() == [True, False]
    assert family.log_normalizer(eta[0]).isfinite()


@every_prior
def test_unconstrained_coordinates(family):
    """Point estimates: every real vector is a value, and every value has a vector."""
    free = torch.randn(5, family.unconstrained_size)
    value = family.from_unconstrained(free)
    assert family.sufficient_statistics(value).isfinite().all()
    for row in range(5):
        assert math.isfinite(log_density(family, random_natural(family), rows(value, (row,))))
    drawn = family.sample(random_natural(family, 5))
    same(family.from_unconstrained(family.to_unconstrained(drawn)), drawn, 1e-9)


@every_prior
def test_prior_times_likelihood_is_posterior_times_marginal(family):
    eta = random_natural(family)
    x = family.sample_observation(family.sufficient_statistics(family.sample(eta)))
    posterior = eta + family.observation_statistics(x)
    for _ in range(5):
        theta = family.sample(eta)
        joint = log_density(family, eta, theta) + log_likelihood(family, theta, x)
        marginal = joint - log_density(family, posterior, theta)
        assert marginal == pytest.approx(log_marginal(family, eta, x), rel=1e-9, abs=1e-9)
    ours = family.log_normalizer(posterior) - family.log_normalizer(eta)
    ours = ours + family.log_base_measure(x)
    assert ours.item() == pytest.approx(log_marginal(family, eta, x), rel=1e-9, abs=1e-9)


@every_prior
def test_likelihood_is_linear_in_the_statistics(family):
    eta = random_natural(family, 6)
    theta = family.sample(eta)
    statistics = family.sufficient_statistics(theta)
    x = family.sample_observation(statistics)
    ours = (statistics * family.observation_statistics(x)).sum(-1) + family.log_base_measure(x)
    for row in range(6):
        expected = log_likelihood(family, rows(theta, (row,)), x[row])
        assert ours[row].item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("family", COMPONENTS.values(), ids=COMPONENTS.keys())
def test_features_and_observations_are_inverse(family):
    """For families of components: a row of features is an observation."""
    statistics = family.sufficient_statistics(family.sample(random_natural(family, 5)))
    x = family.sample_observation(statistics)
    assert x.shape == (5, family.observation_size)
    features = family.features(x)
    assert features.shape == (5, family.num_features)
    same(family.observed(features), x)


@every_prior
def test_observations_are_drawn_from_the_likelihood(family):
    theta = family.sample(random_natural(family))
    statistics = family.sufficient_statistics(theta).expand(20_000, family.size)
    observed = family.observation_statistics(family.sample_observation(statistics))
    assert_mean(observed, expected_observation_statistics(family, theta))


@every_family
@pytest.mark.parametrize(
    "verb", ["standard", "log_normalizer", "expected_statistics", "entropy", "in_domain"]
)
def test_a_batch_is_a_loop(family, verb):
    eta = random_natural(family, 2, 3)
    batch = getattr(family, verb)(eta)
    for i in range(2):
        for j in range(3):
            same(rows(batch, (i, j)), getattr(family, verb)(eta[i, j]))


@every_family
def test_divergences_broadcast(family):
    eta, other = random_natural(family, 2, 1), random_natural(family, 3)
    batch = family.kl_divergence(eta, other)
    assert batch.shape == (2, 3)
    for i in range(2):
        for j in range(3):
            same(batch[i, j], family.kl_divergence(eta[i, 0], other[j]))


@every_family
def test_values_of_a_batch_are_a_loop(family):
    value = family.sample(random_natural(family, 2, 3))
    statistics = family.sufficient_statistics(value)
    assert statistics.shape == (2, 3, family.size)
    for i in range(2):
        for j in range(3):
            same(statistics[i, j], family.sufficient_statistics(rows(value, (i, j))))
    if is_conjugate_prior(family):
        x = family.sample_observation(statistics)
        observed = family.observation_statistics(x)
        assert observed.shape == (2, 3, family.size)
        for i in range(2):
            for j in range(3):
                same(observed[i, j], family.observation_statistics(x[i, j]))


@pytest.mark.parametrize("family", COMPONENTS.values(), ids=COMPONENTS.keys())
def test_design_and_fold(family):
    """``<fold(t), a(x)> = <t, u(x)>``, and the last column of the design is ones."""
    statistics = family.expected_statistics(random_natural(family, 5))
    observed = family.sample_observation(
        family.sufficient_statistics(family.sample(random_natural(family, 4)))
    )
    design = family.design(family.features(observed))
    same(design[:, -1], torch.ones(4))
    same(
        design @ family.fold(statistics).mT,
        family.observation_statistics(observed) @ statistics.mT,
    )


@pytest.mark.parametrize("clusters", [2, 5])  # fewer and more than features of a Gaussian
@pytest.mark.parametrize("family", COMPONENTS.values(), ids=COMPONENTS.keys())
def test_products_with_observations_are_those_with_statistics(family, clusters, monkeypatch):
    """Of likelihoods and sums over rows, also where rows are processed in parts."""
    monkeypatch.setattr(gaussian, "_NUMBERS", 20)
    statistics = family.expected_statistics(random_natural(family, clusters)).requires_grad_()
    x = family.sample_observation(
        family.sufficient_statistics(family.sample(random_natural(family, 7)))
    )
    weights = torch.rand(7, clusters)
    explicit = family.observation_statistics(x)
    scores = family.log_likelihoods(statistics, x)
    same(scores, explicit @ statistics.mT)
    sums = family.weighted_statistics(x, weights)
    same(sums, weights.mT @ explicit)
    same(torch.autograd.grad(scores, statistics, weights)[0], sums)
    in_a_grid = family.log_likelihoods(statistics, x[:6].unflatten(0, (2, 3)))
    same(in_a_grid.flatten(0, 1), scores[:6])
    same(family.log_likelihoods(statistics, x[0]), scores[0])
    assert family.log_likelihoods(statistics, x[:0]).shape == (0, clusters)


@pytest.mark.parametrize("family", [NormalInverseWishart(3), NormalGamma(2)], ids=str)
def test_natural_parameters_come_back_from_their_mean(family):
    eta = random_natural(family, 7)
    same(family.natural_of_mean(family.expected_statistics(eta)), eta, tolerance=1e-6)
