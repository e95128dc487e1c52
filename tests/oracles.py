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
    Categorical,
    Dirichlet,
    ExponentialFamily,
    Gaussian,
    GaussianParameters,
    Moments,
    NormalInverseWishart,
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
}


def random_standard(family: ExponentialFamily, *batch: int) -> tuple[Tensor, ...]:
    """Valid standard parameters, as ``family.natural`` takes them."""
    return _entry(_RANDOM_STANDARD, family)(family, batch)


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
}


def log_density(family: ExponentialFamily, natural_parameters: Tensor, value: Any) -> float:
    """scipy's log p(theta | eta) of one value."""
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


def point(observation: Tensor) -> Tensor:
    """The real x of a Gaussian site's value without spread."""
    moments = Moments.of(observation)
    assert not moments.root.any()
    return moments.mean


_LOG_LIKELIHOOD = {
    Dirichlet: lambda theta, x: scipy.stats.multinomial.logpmf(x.numpy(), 1, _normalized(theta)),
    Beta: lambda theta, x: scipy.stats.bernoulli.logpmf(int(x), theta.item()),
    NormalInverseWishart: lambda theta, x: scipy.stats.multivariate_normal.logpdf(
        point(x).numpy(), theta.mean.numpy(), theta.covariance.numpy()
    ),
}


def log_likelihood(family: ExponentialFamily, theta: Any, x: Tensor) -> float:
    """scipy's log p(x | theta) of the family's conjugate likelihood."""
    return float(_entry(_LOG_LIKELIHOOD, family)(theta, x))


def _student(standard: Any, x: Tensor) -> float:
    location, concentration, scale, degrees = (part.numpy() for part in standard)
    freedom = degrees - len(location) + 1
    shape = scale * (concentration + 1) / (concentration * freedom)
    return scipy.stats.multivariate_t.logpdf(point(x).numpy(), location, shape, df=freedom)


_LOG_MARGINAL = {
    Dirichlet: lambda standard, x: math.log(
        standard.concentration @ x / standard.concentration.sum()
    ),
    Beta: lambda standard, x: math.log(
        (standard.successes if x else standard.failures) / sum(standard)
    ),
    NormalInverseWishart: _student,
}


def log_marginal(family: ExponentialFamily, natural_parameters: Tensor, x: Tensor) -> float:
    """Textbook log p(x) with theta integrated out."""
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
}


def expected_observation_statistics(family: ExponentialFamily, theta: Any) -> Tensor:
    """E[u(x) | theta] of the family's conjugate likelihood."""
    return _entry(_EXPECTED_OBSERVATION, family)(theta)
