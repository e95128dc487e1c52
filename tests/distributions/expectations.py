"""Values of sites, and expectations under Gaussians, to compare with."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from pyro_crowdclust.families import Beta, GaussianParameters, Moments, NormalInverseWishart

from ..oracles import random_covariance, random_natural


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


def mixture(num_clusters: int, dim: int) -> tuple[NormalInverseWishart, GaussianParameters]:
    family = NormalInverseWishart(dim)
    return family, family.sample(random_natural(family, num_clusters))


def worker_rates(*rates: float) -> Tensor:
    return Beta().sufficient_statistics(torch.tensor(rates))
