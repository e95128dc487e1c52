"""Gaussian and Student t components, with full covariance or independent features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.distributions.summaries import ComponentSummary
from pyro_crowdclust.errors import check_whole
from pyro_crowdclust.families import (
    GaussianParameters,
    HeavyTailedNumbers,
    HeavyTailedRows,
    IndependentNormals,
    NormalGamma,
    NormalInverseWishart,
    tempered,
)
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.mixture.components import Components, per_feature
from pyro_crowdclust.mixture.memory import check_covariance_memory
from pyro_crowdclust.mixture.tails import central_coordinates, check_tails
from pyro_crowdclust.mixture.weights import check_num_clusters


def check_dimensions(dim: int) -> None:
    """Raise a ``ValueError`` unless ``dim`` is a number of features."""
    check_whole("dim", dim)
    if dim < 1:
        raise ValueError(f"dim is {dim}, but a Gaussian needs at least one feature")


# Smallest variance that a learned prior expects of a component in any direction, in units of the
# variance of all data: columns with few distinct values would otherwise have infinite densities.
NARROWEST = 1e-3
# A learned prior counts as at most this many items. With more, all components share one covariance
# anyway, and could no longer change it.
MAX_DEGREES = 1000.0


@described
class GaussianComponents(Components):
    """``x | z=k ~ N(mu_k, Sigma_k)``, ``(mu_k, Sigma_k) ~ NIW(m, kappa, S, nu)``; eq. 5.

    The default prior suits latents of networks: it counts as d items and expects components as wide
    in all directions as standardized data. On observed features that are many and go together,
    nearly all items then fall into one component, whatever the labels are. Pass
    ``callbacks=[LearnedPrior()]`` to ``fit`` there, which learns the prior; a smaller fixed
    ``scale`` helps little.

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
    least_degrees
        Lower limit of nu where the prior is learned. If it is much larger than the number of items
        in a component, all components share one covariance, which is learned, and the boundaries
        between clusters are hyperplanes.
    tails
        Degrees of freedom of Student's t instead of the Gaussian,
        ``x | z=k ~ t_tails(mu_k, Sigma_k)``: each item's covariance is divided by a scale of its
        own, which is summed out (``HeavyTailedRows``), so that outliers neither move a cluster nor
        get one of their own (Peel and McLachlan 2000). About 3 suits most tables. Only for observed
        features, not for latents.

    Examples
    --------
    >>> components = GaussianComponents(5, 2, tails=3.0)
    >>> components.is_linear, components.prior.natural_parameters.shape
    (False, torch.Size([5, 8]))
    """

    family: NormalInverseWishart

    def __init__(
        self,
        num_clusters: int,
        dim: int,
        location: Float[Tensor, " dim"] | None = None,
        concentration: float = 0.5,
        scale: Float[Tensor, "dim dim"] | float | None = None,
        degrees: float | None = None,
        least_degrees: float = 0.0,
        tails: float | None = None,
    ) -> None:
        check_num_clusters(num_clusters)
        check_dimensions(dim)
        check_tails(tails)
        check_covariance_memory(num_clusters, dim)
        family = NormalInverseWishart(dim)
        location = torch.zeros(dim, dtype=torch.float64) if location is None else location.double()
        scale = dim + concentration if scale is None else scale
        if not isinstance(scale, Tensor):
            scale = scale * torch.eye(dim, dtype=torch.float64)
        degrees = dim + concentration if degrees is None else degrees
        eta = family.natural(
            location,
            torch.tensor(concentration, dtype=torch.float64),
            scale.double(),
            torch.tensor(degrees, dtype=torch.float64),
        )
        super().__init__(num_clusters, family, eta)
        self.dim = dim
        self.least_degrees = least_degrees
        self.tails = tails
        self.is_linear = tails is None
        self.latent_family = family

    def learned_prior(self, statistics: Float[Tensor, " size"]) -> Float[Tensor, " size"]:
        eta = self.family.natural_of_mean(statistics)
        location, concentration, scale, degrees = self.family.standard(eta)
        variances, axes = torch.linalg.eigh(scale / degrees)
        max_degrees = max(MAX_DEGREES + self.dim, self.least_degrees)
        degrees = degrees.clamp(self.least_degrees, max_degrees)
        scale = degrees * (axes * variances.clamp_min(NARROWEST)) @ axes.mT
        return self.family.natural(location, concentration, scale, degrees)

    def latent_statistics(self, statistics: Float[Tensor, "cluster size"]) -> Tensor:
        return statistics

    def of_rows(self, statistics: Tensor, has_gaps: bool, weight: float = 1.0) -> Any:
        if self.tails is None:
            return super().of_rows(statistics, has_gaps, weight)
        return tempered(HeavyTailedRows(self.family, self.tails, has_gaps), weight), statistics

    def coordinates(self, features: Float[Tensor, "item feature"]) -> Float[Tensor, "item feature"]:
        return features if self.tails is None else central_coordinates(features)

    def in_units(self, value: GaussianParameters, location: Tensor, scale: Tensor) -> Any:
        return GaussianParameters(
            location + scale * value.mean, torch.outer(scale, scale) * value.covariance
        )

    def check(
        self,
        features: Float[Tensor, "item feature"],
        first_row: int = 0,
        columns: Sequence[int] | None = None,
    ) -> None:
        """Raise a ``ValueError`` if the statistics of these items do not fit in memory."""
        if first_row == 0:
            check_covariance_memory(self.num_clusters, self.dim, len(features))

    def summary(self, natural_parameters: Float[Tensor, "cluster size"]) -> ComponentSummary:
        location, _, scale, degrees = self.family.standard(natural_parameters)
        # The mean S / (nu - d - 1) exists only for nu > d + 1, the mode S / (nu + d + 1) always.
        divisor = torch.where(
            degrees > self.dim + 1, degrees - self.dim - 1, degrees + self.dim + 1
        )
        return ComponentSummary(location, scale / divisor[:, None, None])

    def point(self, natural_parameters: Float[Tensor, "cluster size"]) -> GaussianParameters:
        """A point estimate from the posterior: means, and modes of the covariances."""
        location, _, scale, degrees = self.family.standard(natural_parameters)
        return GaussianParameters(location, scale / (degrees + self.dim + 1)[:, None, None])

    def gaussian(self, value: GaussianParameters) -> GaussianParameters:
        """Mean and covariance of a point estimate."""
        return value

    def from_gaussian(self, parameters: GaussianParameters) -> GaussianParameters:
        """The point estimate nearest to a mean and a covariance."""
        return parameters


@described
class DiagonalGaussianComponents(Components):
    """``x_j | z=k ~ N(mu_kj, 1 / lambda_kj)``, independent, each with a normal-gamma prior.

    ``mu | lambda ~ N(m, 1 / (kappa lambda))``, ``lambda ~ Gamma(nu / 2, rate s / 2)``: in one
    dimension the prior of ``GaussianComponents`` with S = s. The defaults expect features (or
    latents) that have been standardized; for others give ``location`` and ``scale`` their means and
    approximately their variances.

    Parameters
    ----------
    num_clusters
        K.
    dim
        Number of features, d.
    location
        m, one number or one per feature.
    concentration
        kappa; 0.5 by default: a component's mean lies about sqrt(1 / kappa) of its standard
        deviations from m.
    scale
        s, one number or one per feature; 1 + kappa by default.
    degrees
        nu > 0; 1 + kappa by default, so that the prior counts as one and a half items.
    tails
        Degrees of freedom of Student's t instead of the normal, as for ``GaussianComponents``; here
        every number has a scale of its own (``HeavyTailedNumbers``), so that an outlying number
        hardly affects the cluster of its item, which the other numbers decide.

    Examples
    --------
    >>> components = DiagonalGaussianComponents(5, 2)
    >>> components.prior.natural_parameters.shape
    torch.Size([5, 8])
    """

    family: NormalGamma

    def __init__(
        self,
        num_clusters: int,
        dim: int,
        location: Float[Tensor, " dim"] | float = 0.0,
        concentration: float = 0.5,
        scale: Float[Tensor, " dim"] | float | None = None,
        degrees: float | None = None,
        tails: float | None = None,
    ) -> None:
        check_dimensions(dim)
        check_tails(tails)
        family = NormalGamma(dim)
        scale = 1 + concentration if scale is None else scale
        degrees = 1 + concentration if degrees is None else degrees
        kappa, half_degrees = (per_feature(v, dim) for v in (concentration, degrees / 2))
        rate = per_feature(scale, dim) / 2
        eta = family.natural(per_feature(location, dim), kappa, half_degrees, rate)
        super().__init__(num_clusters, family, eta)
        self.dim = dim
        self.tails = tails
        self.is_linear = tails is None
        self.latent_family = NormalInverseWishart(dim)

    def learned_prior(self, statistics: Float[Tensor, " size"]) -> Float[Tensor, " size"]:
        location, concentration, shape, rate = self.family.standard(
            self.family.natural_of_mean(statistics)
        )
        variance = (rate / shape).clamp_min(NARROWEST)
        shape = shape.clamp_max(MAX_DEGREES / 2)
        rate = shape * variance
        return self.family.natural(location, concentration, shape, rate)

    def latent_statistics(self, statistics: Float[Tensor, "cluster size"]) -> Tensor:
        return self.family.full(statistics)

    def of_rows(self, statistics: Tensor, has_gaps: bool, weight: float = 1.0) -> Any:
        if self.tails is None:
            return super().of_rows(statistics, has_gaps, weight)
        return tempered(HeavyTailedNumbers(self.family, self.tails), weight), statistics

    def in_units(self, value: IndependentNormals, location: Tensor, scale: Tensor) -> Any:
        return IndependentNormals(location + scale * value.mean, value.precision / scale.square())

    def summary(self, natural_parameters: Float[Tensor, "cluster size"]) -> ComponentSummary:
        location, _, shape, rate = self.family.standard(natural_parameters)
        # As for the full covariance: the mean of the variance where it exists, otherwise the mode.
        return ComponentSummary(location, rate / torch.where(shape > 1, shape - 1, shape + 1))

    def coordinates(self, features: Float[Tensor, "item feature"]) -> Float[Tensor, "item feature"]:
        if self.tails is not None:
            return central_coordinates(features)
        deviation = features.std(0, correction=0)
        return features / torch.where(deviation > 0, deviation, torch.ones_like(deviation))

    def point(self, natural_parameters: Float[Tensor, "cluster size"]) -> IndependentNormals:
        """A point estimate from the posterior: means, and modes of the variances."""
        location, _, shape, rate = self.family.standard(natural_parameters)
        return IndependentNormals(location, (shape + 1) / rate)

    def gaussian(self, value: IndependentNormals) -> GaussianParameters:
        """Mean and covariance of a point estimate."""
        return GaussianParameters(value.mean, (1 / value.precision).diag_embed())

    def from_gaussian(self, parameters: GaussianParameters) -> IndependentNormals:
        """The point estimate nearest to a mean and a covariance."""
        variance = parameters.covariance.diagonal(dim1=-2, dim2=-1)
        return IndependentNormals(parameters.mean, 1 / variance)
