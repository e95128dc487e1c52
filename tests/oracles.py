"""What is known of the exponential families from elsewhere: scipy's densities, textbook moments.

Every function takes a family and looks its type up in a table, so that a family of the registry
without an entry here fails every test of the mathematics by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.stats
import torch
from torch import Tensor

from pyro_crowdclust.families import (
    Beta,
    BetaBernoulli,
    Categorical,
    Dirichlet,
    DirichletCategorical,
    DirichletMultinomial,
    ExponentialFamily,
    GammaPoisson,
    Gaussian,
    GaussianParameters,
    GaussianPotential,
    HurdleNormal,
    MatrixNormalInverseWishart,
    NormalGamma,
    NormalInverseWishart,
    ProductFamily,
)


def _entry(table: dict[type, Callable], family: ExponentialFamily) -> Callable:
    if type(family) not in table:
        raise NotImplementedError(
            f"tests/oracles.py knows nothing of {family}: add it to every table there"
        )
    return table[type(family)]


def is_conjugate_prior(family: ExponentialFamily) -> bool:
    """Whether the family declares a likelihood."""
    own = type(family).observation_statistics
    return own is not ExponentialFamily.observation_statistics


def random_covariance(*batch: int, dim: int) -> Tensor:
    root = torch.randn(*batch, dim, dim + 2)
    return root @ root.mT / dim + 0.2 * torch.eye(dim)


_RANDOM_STANDARD = {
    Dirichlet: lambda family, batch: (0.3 + 4 * torch.rand(*batch, family.size),),
    Beta: lambda family, batch: (0.3 + 4 * torch.rand(batch), 0.3 + 4 * torch.rand(batch)),
    Categorical: lambda family, batch: (torch.randn(*batch, family.size).softmax(-1),),
    Gaussian: lambda family, batch: (
        torch.randn(*batch, family.dim),
        random_covariance(*batch, dim=family.dim),
    ),
    NormalInverseWishart: lambda family, batch: (
        torch.randn(*batch, family.dim),
        0.3 + 3 * torch.rand(batch),
        random_covariance(*batch, dim=family.dim),
        family.dim - 0.5 + 4 * torch.rand(batch),
    ),
    MatrixNormalInverseWishart: lambda family, batch: (
        torch.randn(*batch, family.num_regressors, family.dim),
        random_covariance(*batch, dim=family.num_regressors),
        random_covariance(*batch, dim=family.dim),
        family.dim - 0.5 + 4 * torch.rand(batch),
    ),
    NormalGamma: lambda family, batch: (
        torch.randn(*batch, family.dim),
        *(0.3 + 3 * torch.rand(3, *batch, family.dim)),
    ),
    DirichletCategorical: lambda family, batch: (0.3 + 4 * torch.rand(*batch, family.size),),
    DirichletMultinomial: lambda family, batch: (0.3 + 4 * torch.rand(*batch, family.size),),
    BetaBernoulli: lambda family, batch: tuple(0.3 + 4 * torch.rand(2, *batch, family.dim)),
    GammaPoisson: lambda family, batch: tuple(0.3 + 4 * torch.rand(2, *batch, family.dim)),
    ProductFamily: lambda family, batch: tuple(
        random_standard(factor, *batch) for factor in family.families
    ),
    HurdleNormal: lambda family, batch: tuple(
        random_standard(factor, *batch) for factor in family.families
    ),
}


def random_standard(family: ExponentialFamily, *batch: int) -> tuple[Tensor, ...]:
    """Valid standard parameters, as ``family.natural`` takes them."""
    return _entry(_RANDOM_STANDARD, family)(family, batch)


def random_potential(items: int, dim: int) -> GaussianPotential:
    """Potentials of confident and of doubtful latents."""
    return GaussianPotential(torch.randn(items, dim), torch.rand(items, dim) + 0.5)


def random_natural(family: ExponentialFamily, *batch: int) -> Tensor:
    return family.natural(*random_standard(family, *batch))


def _normalized(vector: Tensor) -> np.ndarray:
    # scipy refuses a sum of 1 - 2e-16 now and then.
    return (vector / vector.sum()).numpy()


def _niw_log_density(standard: Any, value: GaussianParameters) -> float:
    location, concentration, scale, degrees = (np.asarray(part) for part in standard)
    mean, covariance = (np.asarray(part) for part in value)
    return scipy.stats.invwishart.logpdf(
        covariance, float(degrees), scale
    ) + scipy.stats.multivariate_normal.logpdf(mean, location, covariance / concentration)


def _mniw_log_density(standard: Any, value: Any) -> float:
    location, precision, scale, degrees = (np.asarray(part) for part in standard)
    coefficients, covariance = (np.asarray(part) for part in value)
    return scipy.stats.invwishart.logpdf(
        covariance, float(degrees), scale
    ) + scipy.stats.matrix_normal.logpdf(
        coefficients, location, np.linalg.inv(precision), covariance
    )


def _normal_gamma_log_density(standard: Any, value: Any) -> float:
    location, concentration, shape, rate = (part.numpy() for part in standard)
    mean, precision = (part.numpy() for part in value)
    deviation = (concentration * precision) ** -0.5
    return (
        scipy.stats.norm.logpdf(mean, location, deviation)
        + scipy.stats.gamma.logpdf(precision, shape, scale=1 / rate)
    ).sum()


def _columns(family: DirichletCategorical, flat: Tensor) -> tuple[Tensor, ...]:
    """One vector per categorical column."""
    return flat.split(family.num_categories)


def _beta_log_density(standard: Any, value: Tensor) -> float:
    return scipy.stats.beta.logpdf(value.numpy(), *(part.numpy() for part in standard)).sum()


def _gamma_log_density(standard: Any, value: Tensor) -> float:
    shape, rate = (part.numpy() for part in standard)
    return scipy.stats.gamma.logpdf(value.numpy(), shape, scale=1 / rate).sum()


_LOG_DENSITY = {
    Dirichlet: lambda standard, value: scipy.stats.dirichlet.logpdf(
        _normalized(value), standard.concentration.numpy()
    ),
    Beta: lambda standard, value: scipy.stats.beta.logpdf(
        value.item(), standard.successes.item(), standard.failures.item()
    ),
    Categorical: lambda standard, value: scipy.stats.multinomial.logpmf(
        value.numpy(), 1, _normalized(standard.probabilities)
    ),
    Gaussian: lambda standard, value: scipy.stats.multivariate_normal.logpdf(
        value.numpy(), standard.mean.numpy(), standard.covariance.numpy()
    ),
    NormalInverseWishart: _niw_log_density,
    MatrixNormalInverseWishart: _mniw_log_density,
    NormalGamma: _normal_gamma_log_density,
    DirichletMultinomial: lambda standard, value: scipy.stats.dirichlet.logpdf(
        _normalized(value), standard.concentration.numpy()
    ),
    BetaBernoulli: _beta_log_density,
    GammaPoisson: _gamma_log_density,
}


def log_density(family: ExponentialFamily, natural_parameters: Tensor, value: Any) -> float:
    """scipy's log p(theta | eta) of one value."""
    if isinstance(family, ProductFamily):
        parts = zip(family.families, family.split(natural_parameters), value, strict=True)
        return sum(log_density(*part) for part in parts)
    if isinstance(family, DirichletCategorical):
        parts = zip(_columns(family, natural_parameters), _columns(family, value), strict=True)
        return sum(log_density(Dirichlet(len(eta)), eta, part) for eta, part in parts)
    return float(_entry(_LOG_DENSITY, family)(family.standard(natural_parameters), value))


_TORCH_DISTRIBUTION: dict[type, Callable] = {
    Dirichlet: lambda standard: torch.distributions.Dirichlet(*standard),
    Beta: lambda standard: torch.distributions.Beta(*standard),
    Categorical: lambda standard: torch.distributions.OneHotCategorical(*standard),
    Gaussian: lambda standard: torch.distributions.MultivariateNormal(*standard),
}


def torch_has(family: ExponentialFamily) -> bool:
    return type(family) in _TORCH_DISTRIBUTION


def torch_distribution(
    family: ExponentialFamily, natural_parameters: Tensor
) -> torch.distributions.Distribution:
    """torch's distribution of theta; not every family has one."""
    return _entry(_TORCH_DISTRIBUTION, family)(family.standard(natural_parameters))


_LOG_LIKELIHOOD = {
    Dirichlet: lambda theta, x: scipy.stats.multinomial.logpmf(x.numpy(), 1, _normalized(theta)),
    Beta: lambda theta, x: scipy.stats.bernoulli.logpmf(int(x), theta.item()),
    NormalInverseWishart: lambda theta, x: scipy.stats.multivariate_normal.logpdf(
        x.numpy(), theta.mean.numpy(), theta.covariance.numpy()
    ),
    NormalGamma: lambda theta, x: scipy.stats.norm.logpdf(
        x.numpy(), theta.mean.numpy(), theta.precision.numpy() ** -0.5
    ).sum(),
    DirichletMultinomial: lambda theta, x: scipy.stats.multinomial.logpmf(
        x.numpy(), int(x.sum()), _normalized(theta)
    ),
    BetaBernoulli: lambda theta, x: scipy.stats.bernoulli.logpmf(x.numpy(), theta.numpy()).sum(),
    GammaPoisson: lambda theta, x: scipy.stats.poisson.logpmf(x.numpy(), theta.numpy()).sum(),
}


def _observed_parts(family: ProductFamily, x: Tensor) -> tuple[Tensor, ...]:
    return x.split([factor.observation_size for factor in family.families])


def _hurdle(density: Callable, family: HurdleNormal, theta: Any, x: Tensor) -> float:
    """Feature by feature: the coin of each, and its number where that is not at the atom."""
    total = 0.0
    for feature, (number, at_atom) in enumerate(zip(*x.chunk(2), strict=True)):
        normal, coin = (_of_feature(part, family.families[0].dim, feature) for part in theta)
        total += density(BetaBernoulli(1), coin, at_atom[None])
        total += 0.0 if at_atom else density(NormalGamma(1), normal, number[None])
    return total


def _of_feature(theta: Any, dim: int, feature: int) -> Any:
    """One feature's part of a value, or of natural parameters in blocks of ``dim``."""
    if isinstance(theta, tuple):
        return type(theta)(*(part[feature : feature + 1] for part in theta))
    return theta[feature::dim]


def log_likelihood(family: ExponentialFamily, theta: Any, x: Tensor) -> float:
    """scipy's log p(x | theta) of the family's conjugate likelihood."""
    if isinstance(family, HurdleNormal):
        return _hurdle(log_likelihood, family, theta, x)
    if isinstance(family, ProductFamily):
        parts = zip(family.families, theta, _observed_parts(family, x), strict=True)
        return sum(log_likelihood(*part) for part in parts)
    if isinstance(family, DirichletCategorical):
        columns = zip(_columns(family, theta), x.tolist(), strict=True)
        return sum(math.log(column[int(code)]) for column, code in columns)
    return float(_entry(_LOG_LIKELIHOOD, family)(theta, x))


def _student(standard: Any, x: Tensor) -> float:
    location, concentration, scale, degrees = (part.numpy() for part in standard)
    freedom = degrees - len(location) + 1
    shape = scale * (concentration + 1) / (concentration * freedom)
    return scipy.stats.multivariate_t.logpdf(x.numpy(), location, shape, df=freedom)


def _independent_students(standard: Any, x: Tensor) -> float:
    location, concentration, shape, rate = (part.numpy() for part in standard)
    scale = (rate * (concentration + 1) / (shape * concentration)) ** 0.5
    return scipy.stats.t.logpdf(x.numpy(), 2 * shape, location, scale).sum()


def _negative_binomial(standard: Any, x: Tensor) -> float:
    shape, rate = (part.numpy() for part in standard)
    return scipy.stats.nbinom.logpmf(x.numpy(), shape, rate / (rate + 1)).sum()


_LOG_MARGINAL = {
    Dirichlet: lambda standard, x: math.log(
        standard.concentration @ x / standard.concentration.sum()
    ),
    Beta: lambda standard, x: math.log(
        (standard.successes if x else standard.failures) / sum(standard)
    ),
    NormalInverseWishart: _student,
    NormalGamma: _independent_students,
    DirichletMultinomial: lambda standard, x: scipy.stats.dirichlet_multinomial.logpmf(
        x.numpy().astype(int), standard.concentration.numpy(), int(x.sum())
    ),
    BetaBernoulli: lambda standard, x: scipy.stats.betabinom.logpmf(
        x.numpy(), 1, standard.successes.numpy(), standard.failures.numpy()
    ).sum(),
    GammaPoisson: _negative_binomial,
}


def log_marginal(family: ExponentialFamily, natural_parameters: Tensor, x: Tensor) -> float:
    """Textbook log p(x) with theta integrated out."""
    if isinstance(family, HurdleNormal):
        return _hurdle(log_marginal, family, family.split(natural_parameters), x)
    if isinstance(family, ProductFamily):
        etas = family.split(natural_parameters)
        parts = zip(family.families, etas, _observed_parts(family, x), strict=True)
        return sum(log_marginal(*part) for part in parts)
    if isinstance(family, DirichletCategorical):
        columns = zip(_columns(family, natural_parameters + 1), x.tolist(), strict=True)
        return sum(math.log(alpha[int(code)] / alpha.sum()) for alpha, code in columns)
    return float(_entry(_LOG_MARGINAL, family)(family.standard(natural_parameters), x))


_EXPECTED_OBSERVATION = {
    Dirichlet: lambda theta: theta,
    Beta: lambda theta: torch.stack([theta, 1 - theta], -1),
    NormalInverseWishart: lambda theta: torch.cat(
        [
            theta.mean,
            (theta.covariance + torch.outer(theta.mean, theta.mean)).flatten(),
            torch.ones(2),
        ]
    ),
    NormalGamma: lambda theta: torch.cat(
        [theta.mean, 1 / theta.precision + theta.mean**2, torch.ones(2 * len(theta.mean))]
    ),
    DirichletCategorical: lambda theta: theta,
    BetaBernoulli: lambda theta: torch.cat([theta, 1 - theta]),
    GammaPoisson: lambda theta: torch.cat([theta, torch.ones_like(theta)]),
}


def expected_observation_statistics(family: ExponentialFamily, theta: Any) -> Tensor:
    """E[u(x) | theta] of the family's conjugate likelihood."""
    if isinstance(family, HurdleNormal):
        normal, coin = family.families
        numbers = expected_observation_statistics(normal, theta[0])
        shares = expected_observation_statistics(coin, theta[1])
        return torch.cat([numbers * (1 - theta[1]).repeat(4), shares])
    if isinstance(family, ProductFamily):
        pairs = zip(family.families, theta, strict=True)
        return torch.cat([expected_observation_statistics(*pair) for pair in pairs])
    if isinstance(family, DirichletMultinomial):
        return family.length * theta
    return _entry(_EXPECTED_OBSERVATION, family)(theta)
