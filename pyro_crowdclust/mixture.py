"""Parts of a mixture: the weights of its clusters and their components."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.families import Dirichlet, NormalInverseWishart
from pyro_crowdclust.priors import ConjugatePrior


class MixtureSummary(NamedTuple):
    """A mixture as a reader sees it: ``weights`` E[pi], ``location`` and ``covariance``."""

    weights: Float[Tensor, " cluster"]
    location: Float[Tensor, "cluster dim"]
    covariance: Float[Tensor, "cluster dim dim"]


def _check_clusters(num_clusters: int) -> None:
    if num_clusters < 1:
        raise ValueError(
            f"num_clusters is {num_clusters}, but a mixture needs at least 1: choose an upper "
            "bound on the number of clusters, surplus ones empty themselves"
        )


class DirichletWeights(nn.Module):
    """``pi ~ Dir(alpha_0, ..., alpha_0)``; Luo et al. 2018, eq. 5.

    Parameters
    ----------
    num_clusters
        K, an upper bound on the number of clusters.
    concentration
        alpha_0 of every cluster; below 1 it empties clusters that are not needed. Default: 1/K.
    """

    def __init__(self, num_clusters: int, concentration: float | None = None) -> None:
        super().__init__()
        _check_clusters(num_clusters)
        self.num_clusters = num_clusters
        family = Dirichlet(num_clusters)
        alpha = 1 / num_clusters if concentration is None else concentration
        eta = family.natural(torch.full((num_clusters,), alpha, dtype=torch.float64))
        self.prior = ConjugatePrior(family, eta)

    def log_weights(self, statistics: Float[Tensor, " cluster"]) -> Float[Tensor, " cluster"]:
        """log pi (or its expectation) from the site's value."""
        return statistics


class GaussianComponents(nn.Module):
    """``x | z=k ~ N(mu_k, Sigma_k)``, ``(mu_k, Sigma_k) ~ NIW(m, kappa, S, nu)``; eq. 5.

    Parameters
    ----------
    num_clusters
        K.
    dim
        Dimension d of the latent (or of the features, with an ``Identity`` emission).
    location
        m, zero by default.
    concentration
        kappa; 0.5 by default (appendix B).
    scale
        S, or a multiple of the identity; (d + kappa) I by default.
    degrees
        nu > d - 1; d + kappa by default.
    """

    def __init__(
        self,
        num_clusters: int,
        dim: int,
        location: Float[Tensor, " dim"] | None = None,
        concentration: float = 0.5,
        scale: Float[Tensor, "dim dim"] | float | None = None,
        degrees: float | None = None,
    ) -> None:
        super().__init__()
        _check_clusters(num_clusters)
        self.num_clusters = num_clusters
        self.dim = dim
        self.family = NormalInverseWishart(dim)
        location = torch.zeros(dim, dtype=torch.float64) if location is None else location.double()
        scale = dim + concentration if scale is None else scale
        if not isinstance(scale, Tensor):
            scale = scale * torch.eye(dim, dtype=torch.float64)
        degrees = dim + concentration if degrees is None else degrees
        eta = self.family.natural(
            location,
            torch.tensor(concentration, dtype=torch.float64),
            scale.double(),
            torch.tensor(degrees, dtype=torch.float64),
        )
        self.prior = ConjugatePrior(self.family, eta, num_clusters)
