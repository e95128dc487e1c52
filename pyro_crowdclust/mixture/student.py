"""Components with heavy tails: Student's t, full and independent."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust.families import HeavyTailedNumbers, HeavyTailedRows, NormalInverseWishart
from pyro_crowdclust.files.description import described
from pyro_crowdclust.mixture.components import Components
from pyro_crowdclust.mixture.gaussian import DiagonalGaussianComponents, GaussianComponents

# Right or nearly for tails of 1.5 to 5 degrees: 2 and 4 find the same clusters on most tables.
TAILS = 3.0


class HeavyTailed(Components):
    """What components with heavy tails share.

    Their log-density is no linear function of t(theta), so that they are on whole rows of real
    features, and not a part of ``MixedComponents``.
    """

    is_linear = False
    tails: float

    def _take(self, tails: float) -> None:
        if not tails > 0:
            raise ValueError(f"tails is {tails}, but degrees of freedom must be above zero")
        self.tails = tails
        self.latent_family = None  # on latents they would be Gaussian

    @property
    def is_continuous(self) -> Bool[Tensor, " feature"]:
        return torch.ones(self.num_features, dtype=torch.bool)

    def coordinates(self, features: Float[Tensor, "item feature"]) -> Float[Tensor, "item feature"]:
        """``asinh`` of the distance from the median in units of the central two thirds.

        Else k-means would give clusters to what is far away from all others.
        """
        levels = torch.tensor([1 / 6, 1 / 2, 5 / 6], dtype=features.dtype, device=features.device)
        low, median, high = features.quantile(levels, dim=0)
        unit = torch.where(high > low, (high - low) / 2, 1.0)
        return ((features - median) / unit).asinh()


@described
class StudentComponents(HeavyTailed, GaussianComponents):
    """``x | z=k ~ t_nu(mu_k, Sigma_k)``, ``(mu_k, Sigma_k)`` as of ``GaussianComponents``.

    A Gaussian whose covariance is divided by a scale of the item's own, ``s_i ~ Gamma(nu / 2, nu /
    2)``, which is summed out (``HeavyTailedRows``): items far from all clusters move none of them,
    where Gaussian components would give them clusters of their own (Peel and McLachlan 2000).

    Parameters
    ----------
    num_clusters
        K.
    dim
        Number of features d.
    tails
        nu, the degrees of freedom: 1 has the heaviest tails that are in use, from 30 on they are
        normal.
    location, concentration, scale, degrees
        Of the prior, as for ``GaussianComponents``.

    Examples
    --------
    >>> from pyro_crowdclust.emissions import Identity
    >>> from pyro_crowdclust.guides import MessagePassingGuide
    >>> from pyro_crowdclust.minibatches import features_batch
    >>> from pyro_crowdclust.mixture import DirichletWeights
    >>> from pyro_crowdclust.models import SemiCrowdsourcedMixture
    >>> model = SemiCrowdsourcedMixture(DirichletWeights(3), StudentComponents(3, 2), Identity())
    >>> model(features_batch(torch.zeros(5, 2))).shape
    torch.Size([5, 3])
    """

    family: NormalInverseWishart

    def __init__(
        self,
        num_clusters: int,
        dim: int,
        tails: float = TAILS,
        location: Float[Tensor, " dim"] | None = None,
        concentration: float = 0.5,
        scale: Float[Tensor, "dim dim"] | float | None = None,
        degrees: float | None = None,
    ) -> None:
        super().__init__(num_clusters, dim, location, concentration, scale, degrees)
        self._take(tails)

    def of_rows(self, statistics: Tensor, has_gaps: bool, weight: float = 1.0) -> Any:
        return HeavyTailedRows(self.family, self.tails, has_gaps, weight), statistics


@described
class DiagonalStudentComponents(HeavyTailed, DiagonalGaussianComponents):
    """``x_j | z=k ~ t_nu(mu_kj, 1 / lambda_kj)``, independent; priors of the diagonal Gaussian.

    Every number has a scale of its own (``HeavyTailedNumbers``), so that an item with one number
    far away is where its other numbers are.

    Parameters
    ----------
    num_clusters
        K.
    dim
        Number of features d.
    tails
        nu, as of ``StudentComponents``.
    location, concentration, scale, degrees
        Of the prior, as for ``DiagonalGaussianComponents``.

    Examples
    --------
    >>> components = DiagonalStudentComponents(5, 2)
    >>> components.is_linear, components.tails
    (False, 3.0)
    """

    def __init__(
        self,
        num_clusters: int,
        dim: int,
        tails: float = TAILS,
        location: Float[Tensor, " dim"] | float = 0.0,
        concentration: float = 0.5,
        scale: Float[Tensor, " dim"] | float | None = None,
        degrees: float | None = None,
    ) -> None:
        super().__init__(num_clusters, dim, location, concentration, scale, degrees)
        self._take(tails)

    def of_rows(self, statistics: Tensor, has_gaps: bool, weight: float = 1.0) -> Any:
        return HeavyTailedNumbers(self.family, self.tails, weight), statistics
