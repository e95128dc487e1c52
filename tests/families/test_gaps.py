"""Rows with gaps: every gap is integrated out, against scipy, sums over all values and autograd."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import torch

from pyro_crowdclust.families import (
    BetaBernoulli,
    DirichletCategorical,
    DirichletMultinomial,
    GammaPoisson,
    Gaussian,
    GaussianParameters,
    HurdleNormal,
    NormalGamma,
    NormalInverseWishart,
    PartlyObserved,
    ProductFamily,
)
from pyro_crowdclust.families.gaps import gaussian_log_marginals

NAN = torch.nan


def gaussians(dim: int, clusters: int = 3) -> GaussianParameters:
    root = torch.randn(clusters, dim, dim) / dim + torch.eye(dim)
    return GaussianParameters(torch.randn(clusters, dim), root @ root.mT)


def rows_with_gaps(num_rows: int, dim: int, share: float = 0.4) -> torch.Tensor:
    rows = torch.randn(num_rows, dim)
    return rows.masked_fill(torch.rand(num_rows, dim) < share, NAN)


def log_density(family, theta, rows) -> torch.Tensor:
    """log p(x_o | theta_k), base measure included."""
    observed = PartlyObserved(family)
    base = torch.as_tensor(observed.log_base_measure(rows)).expand(len(rows))
    return observed.log_likelihoods(family.sufficient_statistics(theta), rows) + base[:, None]


@pytest.mark.parametrize("dim", [1, 2, 5, 33])
def test_gaussians_are_those_of_the_features_that_were_seen(dim):
    theta, rows = gaussians(dim), rows_with_gaps(12, dim)
    rows[0], rows[1] = NAN, 1.0  # nothing was seen, and all
    found = log_density(NormalInverseWishart(dim), theta, rows)
    for row, k in itertools.product(range(12), range(3)):
        seen = ~rows[row].isnan()
        expected = 0.0
        if seen.any():
            covariance = theta.covariance[k][seen][:, seen]
            normal = scipy.stats.multivariate_normal(theta.mean[k][seen], covariance)
            expected = normal.logpdf(rows[row][seen])
        assert found[row, k].item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("gaps", [[1], [0, 2]])
def test_under_expected_statistics_it_is_the_integral(gaps):
    """By brute force: the integral of exp E[log p] over the gaps."""
    family = NormalInverseWishart(3)
    root = torch.randn(3, 3) / 3 + torch.eye(3)
    location, scale = torch.randn(3), root @ root.mT
    eta = family.natural(location, torch.tensor(2.0), scale, torch.tensor(6.0))
    statistics = family.expected_statistics(eta).unsqueeze(0)
    row = torch.randn(3)

    def integrand(*values: float) -> float:
        whole = row.clone()
        whole[gaps] = torch.tensor(values)
        return family.log_likelihoods(statistics, family.observed(whole)).exp().item()

    integral, _ = scipy.integrate.nquad(integrand, [(-12, 12)] * len(gaps))
    row = row.index_fill(0, torch.tensor(gaps), NAN).unsqueeze(0)
    found = PartlyObserved(family).log_likelihoods(statistics, row)
    assert found.item() == pytest.approx(math.log(integral), rel=1e-6)


def test_the_gradient_is_what_is_expected_of_the_whole_row():
    """E[t] by the conditional of a Gaussian given the features that were seen."""
    dim, family = 4, NormalInverseWishart(4)
    theta, rows = gaussians(dim), rows_with_gaps(9, dim)
    statistics = family.sufficient_statistics(theta).requires_grad_()
    weight = torch.rand(9, 3)
    scores = PartlyObserved(family).log_likelihoods(statistics, rows)
    (weight * scores).sum().backward()
    local = Gaussian(dim)
    for k in range(3):
        first, second = torch.zeros(dim), torch.zeros(dim, dim)
        for n in range(9):
            seen = ~rows[n].isnan()
            mean, covariance = rows[n].clone(), torch.zeros(dim, dim)
            cross = theta.covariance[k][~seen][:, seen]
            gain = cross @ torch.linalg.inv(theta.covariance[k][seen][:, seen])
            mean[~seen] = theta.mean[k][~seen] + gain @ (rows[n][seen] - theta.mean[k][seen])
            left = theta.covariance[k][~seen][:, ~seen] - gain @ cross.mT
            covariance[torch.outer(~seen, ~seen)] = left.flatten()
            first += weight[n, k] * mean
            second += weight[n, k] * (torch.outer(mean, mean) + covariance)
        linear, quadratic = local.unpack(statistics.grad[k])
        torch.testing.assert_close(linear, first)
        torch.testing.assert_close(quadratic, second)
        torch.testing.assert_close(statistics.grad[k, -2:], weight[:, k].sum().expand(2))


def test_gradients_by_differences():
    linear, precision = torch.randn(2, 3), gaussians(3, 2).covariance
    rows = rows_with_gaps(6, 3)

    def symmetric(linear, precision):
        return gaussian_log_marginals(linear, (precision + precision.mT) / 2, rows)

    inputs = linear.requires_grad_(), precision.requires_grad_()
    assert torch.autograd.gradcheck(symmetric, inputs)


@pytest.mark.parametrize("numbers", [1, 50, 1000])
def test_parts_of_any_size_give_the_same(monkeypatch, numbers):
    theta, rows, family = gaussians(4), rows_with_gaps(40, 4), NormalInverseWishart(4)
    whole = log_density(family, theta, rows)
    monkeypatch.setattr("pyro_crowdclust.families.gaps._NUMBERS", numbers)
    torch.testing.assert_close(log_density(family, theta, rows), whole)


def draws(family, clusters: int = 2):
    """theta of each cluster, from a prior."""
    return family.sample(PRIORS[type(family)](family).expand(clusters, -1))


PRIORS = {
    BetaBernoulli: lambda f: f.natural(torch.ones(f.dim), torch.ones(f.dim)),
    DirichletCategorical: lambda f: f.natural(torch.ones(f.size)),
    GammaPoisson: lambda f: f.natural(3 * torch.ones(f.dim), torch.ones(f.dim)),
}
# Every value of a feature that has a probability worth naming.
VALUES = {
    BetaBernoulli: lambda f: [range(2)] * f.dim,
    DirichletCategorical: lambda f: [range(c) for c in f.num_categories],
    GammaPoisson: lambda f: [range(60)] * f.dim,
}


@pytest.mark.parametrize(
    "family",
    [BetaBernoulli(3), DirichletCategorical((2, 3, 4)), GammaPoisson(2)],
    ids=lambda f: type(f).__name__,
)
def test_gaps_among_discrete_features_are_summed_out(family):
    theta = draws(family)
    statistics = family.sufficient_statistics(theta)
    values = VALUES[type(family)](family)
    whole = torch.tensor([own[-1] // 2 for own in values], dtype=torch.float64)
    for gaps in ([0], [1], [0, 1], [*range(len(values))]):
        filled = whole.repeat(math.prod(len(values[gap]) for gap in gaps), 1)
        filled[:, gaps] = torch.cartesian_prod(
            *(torch.tensor(list(values[gap]), dtype=torch.float64) for gap in gaps)
        ).reshape(len(filled), -1)
        every = family.log_likelihoods(statistics, filled)
        every = every + torch.as_tensor(family.log_base_measure(filled)).reshape(-1, 1)
        row = whole.index_fill(0, torch.tensor(gaps), NAN).unsqueeze(0)
        torch.testing.assert_close(log_density(family, theta, row)[0], every.logsumexp(0))


def test_independent_gaussians_leave_their_gaps_out():
    family = NormalGamma(3)
    eta = family.natural(*(torch.ones(3) for _ in range(4)))
    theta = family.sample(eta.expand(2, -1))
    rows = torch.tensor([[0.5, NAN, -1.0], [NAN, NAN, NAN]])
    found = log_density(family, theta, rows)
    normal = scipy.stats.norm(theta.mean, theta.precision**-0.5)
    expected = normal.logpdf(np.array([0.5, 0.0, -1.0]))[:, [0, 2]].sum(1)
    np.testing.assert_allclose(found, [expected, [0.0, 0.0]], rtol=1e-12)


def test_constants_of_what_was_seen_are_exact_whatever_precision_is_torchs_default():
    rows = torch.tensor([[0.5, NAN, -1.0], [NAN, NAN, NAN]])
    torch.set_default_dtype(torch.float32)  # that of a user's process
    found = NormalGamma(3).log_base_measure_of_seen(rows)
    np.testing.assert_allclose(found, [-np.log(2 * np.pi), 0.0], rtol=1e-15)


def test_numbers_that_may_be_at_an_atom_leave_their_gaps_out():
    """What is left is the family of the features that were seen."""
    family, one = (HurdleNormal((NormalGamma(dim), BetaBernoulli(dim))) for dim in (3, 1))
    eta = family.natural(*(tuple(torch.ones(3) for _ in range(n)) for n in (4, 2)))
    theta = family.sample(eta.expand(2, -1))
    row = torch.tensor([[0.5, NAN, 0.0, 0.0, NAN, 1.0]])
    expected = 0.0
    for feature in (0, 2):
        own = tuple(type(p)(*(q[:, [feature]] for q in p)) for p in theta[:1])
        own = (*own, theta[1][:, [feature]])
        expected = expected + log_density(one, own, row[:, [feature, 3 + feature]])
    torch.testing.assert_close(log_density(family, theta, row), expected)


def test_words_that_were_not_counted():
    """Counts of some words say how these are shared out among themselves."""
    family = DirichletMultinomial(4)
    theta = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]])
    row = torch.tensor([[3.0, NAN, 5.0, NAN]])
    found = log_density(family, theta, row)
    shares = theta[:, [0, 2]] / theta[:, [0, 2]].sum(1, keepdim=True)
    expected = [scipy.stats.multinomial(8, own).logpmf([3, 5]) for own in shares.numpy()]
    np.testing.assert_allclose(found[0], expected, rtol=1e-10)


@pytest.mark.parametrize("rarest", [1e-3, 1e-12, 1e-40])
def test_seen_counts_are_shared_out_however_rare_they_are(rarest):
    """One seen category has all seen counts; and the slope is what is expected to be missing."""
    family = DirichletMultinomial(3)
    shares = torch.tensor([[rarest, 0.5 - rarest, 0.5]])
    statistics = family.sufficient_statistics(shares).requires_grad_()
    found = family.log_marginals(statistics, torch.tensor([[4.0, NAN, NAN]]))
    assert found.item() == pytest.approx(0.0, abs=1e-9)
    both = family.log_marginals(statistics, torch.tensor([[4.0, 4.0, NAN]]))
    (slope,) = torch.autograd.grad(both, statistics)
    torch.testing.assert_close(slope, torch.tensor([[4.0, 4.0, 8.0]]))


def test_words_whose_like_never_occur_where_others_were_not_counted():
    """The words that were not counted have all the mass, but for rounding."""
    family = DirichletMultinomial(3)
    theta = torch.tensor([[1e-20, 1e-20, 1.0]])
    found = log_density(family, theta, torch.tensor([[1.0, 1.0, NAN]]))
    assert found.isfinite().all()
    assert log_density(family, theta, torch.tensor([[0.0, 0.0, NAN]])).item() == 0.0


def test_a_product_takes_the_gaps_of_its_factors():
    factors = BetaBernoulli(2), NormalInverseWishart(2)
    family = ProductFamily(factors)
    theta = draws(factors[0]), gaussians(2, 2)
    rows = torch.tensor([[1.0, NAN, 0.3, NAN], [NAN, 0.0, NAN, NAN]])
    parts = [
        log_density(factor, own, part)
        for factor, own, part in zip(factors, theta, rows.split(2, 1), strict=True)
    ]
    torch.testing.assert_close(log_density(family, theta, rows), sum(parts))


@pytest.mark.parametrize(
    "family",
    [
        NormalInverseWishart(3),
        NormalGamma(3),
        BetaBernoulli(3),
        GammaPoisson(3),
        DirichletCategorical((2, 2, 3)),
        DirichletMultinomial(3),
    ],
    ids=lambda f: type(f).__name__,
)
def test_rows_without_gaps_are_whole_rows(family):
    assert family.takes_gaps
    statistics = torch.randn(2, family.size) - 3
    if isinstance(family, NormalInverseWishart):
        statistics = family.sufficient_statistics(gaussians(3, 2))
    rows = torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 2.0]])
    observed = family.observed(rows)
    torch.testing.assert_close(
        family.log_marginals(statistics, rows), family.log_likelihoods(statistics, observed)
    )
    base = (family.log_base_measure_of_seen(rows), family.log_base_measure(observed))
    torch.testing.assert_close(*(torch.as_tensor(part).expand(2) for part in base))
    assert family.size >= 3
