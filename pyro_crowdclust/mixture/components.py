"""``p(x | theta_k)``, ``theta_k ~ p(theta)``: base class for the components of a mixture.

Components are a conjugate family with a prior, a check that features lie in the support, and
methods that reports and starts call. Under an ``Identity`` emission any components can model the
features directly; latents behind a network are continuous, so only Gaussian components can model
them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from pyro_crowdclust.distributions.likelihoods import ComponentObservation, LatentObservation
from pyro_crowdclust.distributions.priors import ConjugatePrior
from pyro_crowdclust.distributions.summaries import ComponentSummary
from pyro_crowdclust.families import (
    ExponentialFamily,
    Moments,
    NormalInverseWishart,
    PartlyObserved,
    RowDensity,
    tempered,
)
from pyro_crowdclust.mixture.weights import check_num_clusters


class Components(nn.Module, ABC):
    """Base class of the components of a mixture, as models, guides and starts use them.

    To add a kind of components, derive from it, call its constructor with a conjugate family that
    has ``num_features``, and define ``summary``; ``outside``, ``support`` and ``coordinates`` have
    defaults.

    Parameters
    ----------
    num_clusters
        K.
    family
        Conjugate prior of a component.
    natural_parameters
        Of the prior, ``[size]`` or ``[K, size]``.

    Attributes
    ----------
    latent_family
        The family under which ``latent_statistics`` describe a latent behind a network; None where
        the components can only be on features.
    is_linear
        Whether ``log p(x | theta)`` is ``<t(theta), u(x)> + log h(x)`` of the family. Components
        that override ``of_rows`` with another density must set it to False; they can only be on
        features.
    """

    latent_family: NormalInverseWishart | None = None
    is_linear = True

    def __init__(
        self, num_clusters: int, family: ExponentialFamily, natural_parameters: Tensor
    ) -> None:
        super().__init__()
        check_num_clusters(num_clusters)
        self.num_clusters = num_clusters
        self.family = family
        self.prior = ConjugatePrior(family, natural_parameters, num_clusters)

    @property
    def num_features(self) -> int:
        """Features of an item (or latent dimensions) that the components are on."""
        return self.family.num_features

    @property
    def is_continuous(self) -> Bool[Tensor, " feature"]:
        """Which features are real numbers, so that their units are arbitrary."""
        return torch.full((self.num_features,), self.latent_family is not None)

    def column_labels(self, names: Sequence[Hashable] | None = None) -> list[Hashable]:
        """Labels of the columns of ``summary``, from names of the features or their positions."""
        return list(range(self.num_features) if names is None else names)

    def part_labels(self, names: Sequence[Hashable]) -> dict[str, list[Hashable]]:
        """Names of the features of every part of theta, by the number of the part ("" if one)."""
        return {"": list(names)}

    @property
    def summary_features(self) -> list[int]:
        """For every column of ``summary``, the position of the feature that it describes."""
        return list(range(self.num_features))

    def in_units(
        self, value: Any, location: Float[Tensor, " feature"], scale: Float[Tensor, " feature"]
    ) -> Any:
        """Convert theta of features x to theta of the features ``o_j = l_j + s_j x_j``.

        Theta is in the form that the family's ``sample`` returns. ``location`` is 0 and ``scale`` 1
        for features that are not real numbers.
        """
        return value

    @abstractmethod
    def summary(self, natural_parameters: Float[Tensor, "cluster size"]) -> ComponentSummary:
        """Means of the features of every component under a posterior."""

    def learned_prior(self, statistics: Float[Tensor, " size"]) -> Float[Tensor, " size"] | None:
        """Natural parameters of the prior under which t(theta) has these means, or None.

        Called by ``LearnedPrior`` with the mean over components. None, the default, leaves the
        prior as it is.
        """
        return None

    def latent_statistics(self, statistics: Float[Tensor, "cluster size"]) -> Tensor:
        """Statistics of a component in the layout of ``latent_family``."""
        raise NotImplementedError(f"{type(self).__name__} cannot be on latents")

    def of_rows(
        self, statistics: Float[Tensor, "cluster size"], has_gaps: bool, weight: float = 1.0
    ) -> tuple[RowDensity, Float[Tensor, "cluster size"]]:
        """Family and statistics of ``p(x | theta)^w``, x with or without missing features."""
        rows = PartlyObserved(self.family) if has_gaps else self.family
        return tempered(rows, weight), statistics

    def given(
        self,
        statistics: Float[Tensor, "cluster size"],
        assignments: Float[Tensor, "*item cluster"],
        has_gaps: bool = False,
        weight: float = 1.0,
    ) -> ComponentObservation:
        """``p(x | z)^w`` of observed features; with gaps, of those that are not missing."""
        family, statistics = self.of_rows(statistics, has_gaps, weight)
        return ComponentObservation(family, statistics, assignments, family.observation_size)

    def latent(
        self, statistics: Float[Tensor, "cluster size"], assignments: Float[Tensor, "*item cluster"]
    ) -> LatentObservation:
        """``p(x | z)`` of latents, whose values are ``Moments``."""
        family = self.latent_family
        assert family is not None  # the model has checked that they can be on latents
        layout, size = self.latent_statistics(statistics), Moments.size(family.dim)
        return LatentObservation(family, layout, assignments, size)

    def in_own_order(self, features: Float[Tensor, "item feature"]) -> Tensor:
        """The features in the order that the family uses."""
        return features

    def observe(self, features: Float[Tensor, "item feature"], has_gaps: bool = False) -> Tensor:
        """The value of the site ``x`` for known features, ``[item, observation]``.

        With ``has_gaps`` it is the row itself, NaN where a feature is missing.
        """
        family = PartlyObserved(self.family) if has_gaps else self.family
        return family.observed(self.in_own_order(features.double()))

    def features(self, observation: Float[Tensor, "item observation"]) -> Tensor:
        """Inverse of ``observe``, e.g. of simulated items; ``[item, feature]``."""
        return self.family.features(observation)

    def coordinates(self, features: Float[Tensor, "item feature"]) -> Float[Tensor, "item column"]:
        """Coordinates for the k-means start; distances should mean the same everywhere."""
        return features

    def check(
        self,
        features: Float[Tensor, "item feature"],
        first_row: int = 0,
        columns: Sequence[int] | None = None,
    ) -> None:
        """Raise a ``ValueError`` where features lie outside the support, naming row and column.

        Parameters
        ----------
        features
            Some rows of the data.
        first_row
            Row of the data where ``features`` begin, for the message.
        columns
            Columns of the data that ``features`` are, for the message.
        """
        outside = self.outside(features) & ~features.isnan()
        if outside.any():
            row, column = outside.nonzero()[0].tolist()
            where = column if columns is None else columns[column]
            raise ValueError(
                f"row {first_row + row}, column {where} of the features is "
                f"{float(features[row, column]):g}, but {self.support}"
            )

    def outside(self, features: Float[Tensor, "item feature"]) -> Bool[Tensor, "item feature"]:
        """Which numbers lie outside the support; none, by default."""
        return torch.zeros_like(features, dtype=torch.bool)

    @property
    def support(self) -> str:
        """The rest of the message about a value outside the support: what features must be."""
        return f"{type(self).__name__} do not accept this value"


def per_feature(value: float | Tensor, num_features: int) -> Float[Tensor, " feature"]:
    """One prior parameter for every feature, from one for all or one for each."""
    return torch.as_tensor(value, dtype=torch.float64).expand(num_features)
