"""Components of a mixture: what the features of the items in one cluster look like.

Every class here is a conjugate family with a prior, the check that features lie in its support, and
what reports and starts ask. Under an ``Identity`` emission any of them is on the features
themselves; under a network only Gaussian ones are, since latents are continuous.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from pyro_crowdclust.description import described
from pyro_crowdclust.families import (
    BetaBernoulli,
    DirichletCategorical,
    DirichletMultinomial,
    ExponentialFamily,
    GammaPoisson,
    GaussianParameters,
    IndependentNormals,
    NormalGamma,
    NormalInverseWishart,
    ProductFamily,
)
from pyro_crowdclust.priors import ConjugatePrior
from pyro_crowdclust.weights import check_num_clusters


class ComponentSummary(NamedTuple):
    """What the items of every cluster look like.

    Attributes
    ----------
    location
        Mean of the features (or latents) of every component, one column per ``column_labels``.
    covariance
        Of Gaussian components, given their parameters: ``[cluster, dim, dim]``, or, of independent
        features, their variances ``[cluster, dim]``. None for discrete features.
    """

    location: Float[Tensor, "cluster column"]
    covariance: Float[Tensor, "cluster ..."] | None


class Components(nn.Module, ABC):
    """What models, guides and starts ask of the components of a mixture.

    Derive from it, call its constructor with a conjugate family that knows its ``num_features``,
    and say how to summarize; ``check`` and ``coordinates`` have defaults.

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
    """

    latent_family: NormalInverseWishart | None = None

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

    def column_labels(self, names: Sequence[Hashable] | None = None) -> list[Hashable]:
        """Labels of the columns of ``summary``, from names of the features or their positions."""
        return list(range(self.num_features) if names is None else names)

    @abstractmethod
    def summary(self, natural_parameters: Float[Tensor, "cluster size"]) -> ComponentSummary:
        """Means of the features of every component under a posterior."""

    def latent_statistics(self, statistics: Float[Tensor, "cluster size"]) -> Tensor:
        """Statistics of a component in the layout of ``latent_family``."""
        raise NotImplementedError(f"{type(self).__name__} cannot be on latents")

    def observe(self, features: Float[Tensor, "item feature"]) -> Tensor:
        """The value of the site ``x`` that known features are, ``[item, observation]``."""
        return self.family.observed(features.double())

    def features(self, observation: Float[Tensor, "item observation"]) -> Tensor:
        """Inverse of ``observe``, e.g. of simulated items; ``[item, feature]``."""
        return self.family.features(observation)

    def coordinates(self, features: Float[Tensor, "item feature"]) -> Float[Tensor, "item column"]:
        """Coordinates in which k-means finds a start: distances should mean the same everywhere."""
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
            The row of the data at which they begin, for the message.
        columns
            The columns of the data that they are, for the message.
        """


def _refuse(
    outside: Bool[Tensor, "item feature"],
    features: Tensor,
    first_row: int,
    columns: Sequence[int] | None,
    message: str,
) -> None:
    """Raise a ``ValueError`` about the first number outside the support, if there is one."""
    if outside.any():
        row, column = outside.nonzero()[0].tolist()
        where = column if columns is None else columns[column]
        raise ValueError(
            f"row {first_row + row}, column {where} of the features is "
            f"{float(features[row, column]):g}, but {message}"
        )


def _not_a_count(features: Tensor) -> Bool[Tensor, "item feature"]:
    return (features < 0) | (features != features.round())


def _per_feature(value: float | Tensor, num_features: int) -> Float[Tensor, " feature"]:
    return torch.as_tensor(value, dtype=torch.float64).expand(num_features)


@described
class GaussianComponents(Components):
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
        self.latent_family = family

    def latent_statistics(self, statistics: Float[Tensor, "cluster size"]) -> Tensor:
        return statistics

    def summary(self, natural_parameters: Float[Tensor, "cluster size"]) -> ComponentSummary:
        location, _, scale, degrees = self.family.standard(natural_parameters)
        # The mean S / (nu - d - 1) exists only for nu > d + 1, the mode S / (nu + d + 1) always.
        divisor = torch.where(
            degrees > self.dim + 1, degrees - self.dim - 1, degrees + self.dim + 1
        )
        return ComponentSummary(location, scale / divisor[:, None, None])

    def point(self, natural_parameters: Float[Tensor, "cluster size"]) -> GaussianParameters:
        """Components for a point estimate: posterior means, and modes of the covariances."""
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
    about their variances.

    Parameters
    ----------
    num_clusters
        K.
    dim
        Number of features d.
    location
        m, one number or one per feature.
    concentration
        kappa; 0.5 by default: a component's mean is about sqrt(1 / kappa) of its deviations away
        from m.
    scale
        s, one number or one per feature; 1 + kappa by default.
    degrees
        nu > 0; 1 + kappa by default, so that the prior weighs one and a half items.

    Examples
    --------
    >>> components = DiagonalGaussianComponents(5, 2)
    >>> components.prior.natural_parameters.shape
    torch.Size([5, 8])
    """

    def __init__(
        self,
        num_clusters: int,
        dim: int,
        location: Float[Tensor, " dim"] | float = 0.0,
        concentration: float = 0.5,
        scale: Float[Tensor, " dim"] | float | None = None,
        degrees: float | None = None,
    ) -> None:
        family = NormalGamma(dim)
        scale = 1 + concentration if scale is None else scale
        degrees = 1 + concentration if degrees is None else degrees
        kappa, half_degrees = (_per_feature(v, dim) for v in (concentration, degrees / 2))
        rate = _per_feature(scale, dim) / 2
        eta = family.natural(_per_feature(location, dim), kappa, half_degrees, rate)
        super().__init__(num_clusters, family, eta)
        self.dim = dim
        self.latent_family = NormalInverseWishart(dim)

    def latent_statistics(self, statistics: Float[Tensor, "cluster size"]) -> Tensor:
        return self.family.full(statistics)

    def summary(self, natural_parameters: Float[Tensor, "cluster size"]) -> ComponentSummary:
        location, _, shape, rate = self.family.standard(natural_parameters)
        # As for the full covariance: the mean of the variance where it exists, else the mode.
        return ComponentSummary(location, rate / torch.where(shape > 1, shape - 1, shape + 1))

    def coordinates(self, features: Float[Tensor, "item feature"]) -> Float[Tensor, "item feature"]:
        deviation = features.std(0)
        return features / torch.where(deviation > 0, deviation, torch.ones_like(deviation))

    def point(self, natural_parameters: Float[Tensor, "cluster size"]) -> IndependentNormals:
        """Components for a point estimate: posterior means, and modes of the variances."""
        location, _, shape, rate = self.family.standard(natural_parameters)
        return IndependentNormals(location, (shape + 1) / rate)

    def gaussian(self, value: IndependentNormals) -> GaussianParameters:
        """Mean and covariance of a point estimate."""
        return GaussianParameters(value.mean, (1 / value.precision).diag_embed())

    def from_gaussian(self, parameters: GaussianParameters) -> IndependentNormals:
        """The point estimate nearest to a mean and a covariance."""
        variance = parameters.covariance.diagonal(dim1=-2, dim2=-1)
        return IndependentNormals(parameters.mean, 1 / variance)


@described
class CategoricalComponents(Components):
    """``x_j | z=k ~ Cat(p_kj)``, one distribution per column, ``p_kj ~ Dir(alpha)``.

    Features are whole numbers, the codes 0 .. c_j - 1 of column j.

    Parameters
    ----------
    num_clusters
        K.
    num_categories
        c_j of every column.
    concentration
        alpha of every category; 1/2 by default (Jeffreys).

    Examples
    --------
    >>> components = CategoricalComponents(4, (3, 2))
    >>> components.column_labels(["size", "sex"])
    ['size=0', 'size=1', 'size=2', 'sex=0', 'sex=1']
    """

    def __init__(
        self, num_clusters: int, num_categories: Sequence[int], concentration: float = 0.5
    ) -> None:
        num_categories = tuple(int(count) for count in num_categories)
        if not num_categories or min(num_categories) < 1:
            raise ValueError(
                f"num_categories is {num_categories}, but must give a number of categories, 1 or "
                "more, for every column"
            )
        family = DirichletCategorical(num_categories)
        eta = family.natural(_per_feature(concentration, family.size))
        super().__init__(num_clusters, family, eta)

    def column_labels(self, names: Sequence[Hashable] | None = None) -> list[Hashable]:
        columns = zip(super().column_labels(names), self.family.num_categories, strict=True)
        return [f"{name}={code}" for name, count in columns for code in range(count)]

    def summary(self, natural_parameters: Float[Tensor, "cluster size"]) -> ComponentSummary:
        return ComponentSummary(self.family.mean(natural_parameters), None)

    def coordinates(self, features: Float[Tensor, "item feature"]) -> Float[Tensor, "item size"]:
        return self.family.observation_statistics(features)

    def check(
        self,
        features: Float[Tensor, "item feature"],
        first_row: int = 0,
        columns: Sequence[int] | None = None,
    ) -> None:
        counts = torch.tensor(self.family.num_categories, device=features.device)
        outside = _not_a_count(features) | (features >= counts)
        given = ", ".join(map(str, self.family.num_categories[:8]))
        _refuse(
            outside,
            features,
            first_row,
            columns,
            "categorical components need codes 0, 1, ... below the column's number of categories "
            f"({given}{', ...' * (len(counts) > 8)}): recode it, e.g. with pandas.factorize, or "
            "give num_categories more",
        )


@described
class MultinomialComponents(Components):
    """``x | z=k ~ Mult(n, p_k)``, ``p_k ~ Dir(alpha)``: word counts of documents, for instance.

    The number n of counts of every item is given, not modelled; with n = 1 this is a categorical.

    Parameters
    ----------
    num_clusters
        K.
    num_categories
        Length of a count vector, e.g. size of the vocabulary.
    concentration
        alpha of every category; 1/2 by default (Jeffreys).
    length
        n of simulated items.
    """

    def __init__(
        self,
        num_clusters: int,
        num_categories: int,
        concentration: float = 0.5,
        length: int = 100,
    ) -> None:
        family = DirichletMultinomial(num_categories, length)
        eta = family.natural(_per_feature(concentration, num_categories))
        super().__init__(num_clusters, family, eta)

    def summary(self, natural_parameters: Float[Tensor, "cluster size"]) -> ComponentSummary:
        """Shares of the categories."""
        (concentration,) = self.family.standard(natural_parameters)
        return ComponentSummary(concentration / concentration.sum(-1, keepdim=True), None)

    def coordinates(self, features: Float[Tensor, "item feature"]) -> Float[Tensor, "item feature"]:
        # Roots of shares: their distance is Hellinger's, and frequent words do not drown the rest.
        return (features / features.sum(-1, keepdim=True).clamp_min(1)).sqrt()

    def check(
        self,
        features: Float[Tensor, "item feature"],
        first_row: int = 0,
        columns: Sequence[int] | None = None,
    ) -> None:
        message = (
            "multinomial components need counts 0, 1, 2, ...: pass raw counts, not frequencies or "
            "tf-idf"
        )
        _refuse(_not_a_count(features), features, first_row, columns, message)


@described
class BernoulliComponents(Components):
    """``x_j | z=k ~ Bern(p_kj)``, independent, ``p_kj ~ Beta(tau_1, tau_2)``; features 0 or 1.

    Parameters
    ----------
    num_clusters
        K.
    num_features
        Length of a binary vector.
    successes, failures
        Pseudo-counts tau_1 of 1 and tau_2 of 0; 1/2 each by default (Jeffreys).
    """

    def __init__(
        self,
        num_clusters: int,
        num_features: int,
        successes: float = 0.5,
        failures: float = 0.5,
    ) -> None:
        family = BetaBernoulli(num_features)
        counts = (_per_feature(count, num_features) for count in (successes, failures))
        super().__init__(num_clusters, family, family.natural(*counts))

    def summary(self, natural_parameters: Float[Tensor, "cluster size"]) -> ComponentSummary:
        """Probabilities of 1."""
        successes, failures = self.family.standard(natural_parameters)
        return ComponentSummary(successes / (successes + failures), None)

    def check(
        self,
        features: Float[Tensor, "item feature"],
        first_row: int = 0,
        columns: Sequence[int] | None = None,
    ) -> None:
        message = (
            "Bernoulli components need 0 or 1: threshold it, or use a BernoulliEmission, which "
            "takes all of [0, 1]"
        )
        _refuse((features != 0) & (features != 1), features, first_row, columns, message)


@described
class PoissonComponents(Components):
    """``x_j | z=k ~ Poisson(lambda_kj)``, independent, ``lambda_kj ~ Gamma(a, rate b)``; counts.

    Unlike ``MultinomialComponents``, the totals of the items speak for clusters, too.

    Parameters
    ----------
    num_clusters
        K.
    num_features
        Length of a count vector.
    shape
        a; 1/2 by default.
    rate
        b, by how many items the prior counts; 0.1 by default, so that the prior mean is 5 and its
        deviation 7. For counts of another size, ``shape / rate`` should be about their mean.
    """

    def __init__(
        self,
        num_clusters: int,
        num_features: int,
        shape: Float[Tensor, " feature"] | float = 0.5,
        rate: Float[Tensor, " feature"] | float = 0.1,
    ) -> None:
        family = GammaPoisson(num_features)
        parts = (_per_feature(part, num_features) for part in (shape, rate))
        super().__init__(num_clusters, family, family.natural(*parts))

    def summary(self, natural_parameters: Float[Tensor, "cluster size"]) -> ComponentSummary:
        """Rates."""
        shape, rate = self.family.standard(natural_parameters)
        return ComponentSummary(shape / rate, None)

    def coordinates(self, features: Float[Tensor, "item feature"]) -> Float[Tensor, "item feature"]:
        # Anscombe's root, whose variance hardly depends on the rate.
        return 2 * (features + 3 / 8).sqrt()

    def check(
        self,
        features: Float[Tensor, "item feature"],
        first_row: int = 0,
        columns: Sequence[int] | None = None,
    ) -> None:
        message = "Poisson components need counts 0, 1, 2, ...: pass raw counts"
        _refuse(_not_a_count(features), features, first_row, columns, message)


@described
class MixedComponents(Components):
    """Rows of mixed type: given the cluster, parts of other components side by side.

    Parameters
    ----------
    parts
        Components of the library or your own, of the same ``num_clusters``.
    columns
        The columns of the data that each part is on, every column once. Default: the first part
        has the first columns, and so on.

    Examples
    --------
    >>> components = MixedComponents(
    ...     [DiagonalGaussianComponents(3, 2), BernoulliComponents(3, 1)], columns=[[0, 2], [1]]
    ... )
    >>> components.num_features, components.column_labels()
    (3, [0, 2, 1])
    """

    def __init__(
        self, parts: Sequence[Components], columns: Sequence[Sequence[int]] | None = None
    ) -> None:
        clusters = {part.num_clusters for part in parts}
        if len(clusters) != 1:
            raise ValueError(
                f"the parts have {sorted(clusters)} clusters: give one or more parts that all have "
                "the same number"
            )
        sizes = [part.num_features for part in parts]
        if columns is None:
            columns = [part.tolist() for part in torch.arange(sum(sizes)).split(sizes)]
        columns = [list(part) for part in columns]
        if [len(part) for part in columns] != sizes or sorted(sum(columns, [])) != [
            *range(sum(sizes))
        ]:
            raise ValueError(
                f"columns are {columns}, but the parts take {sizes} columns: give every column "
                f"from 0 to {sum(sizes) - 1} to one part"
            )
        family = ProductFamily(tuple(part.family for part in parts))
        eta = torch.cat([part.prior.natural_parameters for part in parts], -1)
        super().__init__(clusters.pop(), family, eta)
        self.parts = nn.ModuleList(parts)
        self.columns = columns
        order = torch.tensor(sum(columns, []))
        self.register_buffer("_order", order)
        self.register_buffer("_place", order.argsort())

    def column_labels(self, names: Sequence[Hashable] | None = None) -> list[Hashable]:
        names = super().column_labels(names)
        pairs = zip(self.parts, self.columns, strict=True)
        return sum((part.column_labels([names[c] for c in own]) for part, own in pairs), [])

    def _pairs(self, features: Float[Tensor, "item feature"]) -> list[tuple[Components, Tensor]]:
        pairs = zip(self.parts, self.columns, strict=True)
        return [(part, features[:, columns]) for part, columns in pairs]

    def summary(self, natural_parameters: Float[Tensor, "cluster size"]) -> ComponentSummary:
        pairs = zip(self.parts, self.family.split(natural_parameters), strict=True)
        locations = [part.summary(eta).location for part, eta in pairs]
        return ComponentSummary(torch.cat(locations, -1), None)

    def observe(self, features: Float[Tensor, "item feature"]) -> Tensor:
        return self.family.observed(features.double()[:, self._order])

    def features(self, observation: Float[Tensor, "item observation"]) -> Tensor:
        return self.family.features(observation)[:, self._place]

    def coordinates(self, features: Float[Tensor, "item feature"]) -> Float[Tensor, "item column"]:
        # Every feature has the same say: a part of m features has total variance m.
        scaled = []
        for part, own in self._pairs(features):
            coordinates = part.coordinates(own)
            spread = coordinates.var(0).sum() if len(own) > 1 else coordinates.new_zeros(())
            factor = (part.num_features / spread).sqrt() if spread > 0 else 1.0
            scaled.append(factor * coordinates)
        return torch.cat(scaled, -1)

    def check(
        self,
        features: Float[Tensor, "item feature"],
        first_row: int = 0,
        columns: Sequence[int] | None = None,
    ) -> None:
        for (part, own), mine in zip(self._pairs(features), self.columns, strict=True):
            part.check(own, first_row, mine if columns is None else [columns[c] for c in mine])
