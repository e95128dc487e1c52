"""Hurdle components: for numeric columns in which one value, such as zero, is frequent."""

from __future__ import annotations

from pyro_crowdclust.families import HurdleNormal
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.mixture.discrete import BernoulliComponents
from pyro_crowdclust.mixture.gaussian import DiagonalGaussianComponents
from pyro_crowdclust.mixture.mixed import MixedComponents


@described
class HurdleGaussianComponents(MixedComponents):
    """``b_j | z=k ~ Bern(p_kj)``; where b_j = 0, ``x_j | z=k ~ N(mu_kj, 1 / lambda_kj)``.

    Every feature has two columns: first the d numbers x, which are 0 at the atom (the frequent
    value), then the d indicators b of being at the atom (``WithAtoms`` makes both). Gaussian
    components would need one component for every pattern of zeros; here each cluster has a
    probability of zeros.

    Parameters
    ----------
    num_clusters
        K.
    dim
        Number of features, d.
    concentration, scale, degrees
        Of the numbers, as for ``DiagonalGaussianComponents``; the probabilities have Jeffreys'
        prior.

    Examples
    --------
    >>> components = HurdleGaussianComponents(5, 2)
    >>> components.num_features, components.family.size
    (4, 12)
    """

    product = HurdleNormal

    def __init__(
        self,
        num_clusters: int,
        dim: int,
        concentration: float = 0.5,
        scale: float | None = None,
        degrees: float | None = None,
    ) -> None:
        numbers = DiagonalGaussianComponents(
            num_clusters, dim, concentration=concentration, scale=scale, degrees=degrees
        )
        super().__init__([numbers, BernoulliComponents(num_clusters, dim)])
