"""What the components of a mixture must be."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.distributions.priors import ConjugatePrior
from pyro_crowdclust.distributions.summaries import ComponentSummary
from pyro_crowdclust.families import ExponentialFamily


class ComponentPrior(Protocol):
    """What the features of the items in one cluster look like; ``Components`` has defaults."""

    num_clusters: int
    family: ExponentialFamily
    prior: ConjugatePrior
    latent_family: ExponentialFamily | None

    @property
    def num_features(self) -> int:
        """Features of an item (or latent dimensions) that the components are on."""

    def column_labels(self, names: Sequence[Hashable] | None = None) -> list[Hashable]:
        """Labels of the columns of ``summary``, from names of the features or their positions."""

    def summary(self, natural_parameters: Float[Tensor, "cluster size"]) -> ComponentSummary:
        """Means of the features of every component under a posterior."""

    def observe(
        self, features: Float[Tensor, "item feature"], has_gaps: bool = False
    ) -> Float[Tensor, "item observation"]:
        """The value of the site ``x`` that known features are; NaN where they have gaps."""

    def features(self, observation: Float[Tensor, "item observation"]) -> Tensor:
        """Inverse of ``observe``, e.g. of simulated items."""

    def coordinates(self, features: Float[Tensor, "item feature"]) -> Float[Tensor, "item column"]:
        """Coordinates in which k-means finds a start."""

    def check(
        self,
        features: Float[Tensor, "item feature"],
        first_row: int = 0,
        columns: Sequence[int] | None = None,
    ) -> None:
        """Raise a ``ValueError`` where features lie outside the support."""
