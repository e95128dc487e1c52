"""Components for categorical, count and binary features."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust.distributions.summaries import ComponentSummary
from pyro_crowdclust.families import (
    BetaBernoulli,
    DirichletCategorical,
    DirichletMultinomial,
    GammaPoisson,
)
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.mixture.components import Components, per_feature


def _not_a_count(features: Tensor) -> Bool[Tensor, "item feature"]:
    return (features < 0) | (features != features.round())


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

    family: DirichletCategorical

    def __init__(
        self, num_clusters: int, num_categories: Sequence[int], concentration: float = 0.5
    ) -> None:
        num_categories = tuple(map(int, num_categories))
        if not num_categories or min(num_categories) < 1:
            raise ValueError(
                f"num_categories is {num_categories}, but must give a number of categories, 1 or "
                "more, for every column"
            )
        family = DirichletCategorical(num_categories)
        eta = family.natural(per_feature(concentration, family.size))
        super().__init__(num_clusters, family, eta)

    def column_labels(self, names: Sequence[Hashable] | None = None) -> list[Hashable]:
        columns = zip(super().column_labels(names), self.family.num_categories, strict=True)
        return [f"{name}={code}" for name, count in columns for code in range(count)]

    @property
    def summary_features(self) -> list[int]:
        counts = enumerate(self.family.num_categories)
        return [column for column, count in counts for _ in range(count)]

    def summary(self, natural_parameters: Float[Tensor, "cluster size"]) -> ComponentSummary:
        return ComponentSummary(self.family.mean(natural_parameters), None)

    def coordinates(self, features: Float[Tensor, "item feature"]) -> Float[Tensor, "item size"]:
        return self.family.observation_statistics(features)

    def outside(self, features: Float[Tensor, "item feature"]) -> Bool[Tensor, "item feature"]:
        counts = torch.tensor(self.family.num_categories, device=features.device)
        return _not_a_count(features) | (features >= counts)

    @property
    def support(self) -> str:
        counts = self.family.num_categories
        given = ", ".join(map(str, counts[:8])) + ", ..." * (len(counts) > 8)
        return (
            "categorical components need codes 0, 1, ... below the column's number of categories "
            f"({given}): recode the column, e.g. with pandas.factorize, or increase num_categories"
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

    support = (
        "multinomial components need counts 0, 1, 2, ...: pass raw counts, not frequencies or "
        "tf-idf"
    )

    def __init__(
        self,
        num_clusters: int,
        num_categories: int,
        concentration: float = 0.5,
        length: int = 100,
    ) -> None:
        family = DirichletMultinomial(num_categories, length)
        eta = family.natural(per_feature(concentration, num_categories))
        super().__init__(num_clusters, family, eta)

    def summary(self, natural_parameters: Float[Tensor, "cluster size"]) -> ComponentSummary:
        """Shares of the categories."""
        (concentration,) = self.family.standard(natural_parameters)
        return ComponentSummary(concentration / concentration.sum(-1, keepdim=True), None)

    def coordinates(self, features: Float[Tensor, "item feature"]) -> Float[Tensor, "item feature"]:
        # Square roots of shares: their distance is Hellinger's, and frequent words do not dominate.
        return (features / features.sum(-1, keepdim=True).clamp_min(1)).sqrt()

    def outside(self, features: Float[Tensor, "item feature"]) -> Bool[Tensor, "item feature"]:
        return _not_a_count(features)


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

    support = (
        "Bernoulli components need 0 or 1: threshold the column, or use a BernoulliEmission, which "
        "accepts all of [0, 1]"
    )

    def __init__(
        self,
        num_clusters: int,
        num_features: int,
        successes: float = 0.5,
        failures: float = 0.5,
    ) -> None:
        family = BetaBernoulli(num_features)
        counts = (per_feature(count, num_features) for count in (successes, failures))
        super().__init__(num_clusters, family, family.natural(*counts))

    def summary(self, natural_parameters: Float[Tensor, "cluster size"]) -> ComponentSummary:
        """Probabilities of 1."""
        successes, failures = self.family.standard(natural_parameters)
        return ComponentSummary(successes / (successes + failures), None)

    def outside(self, features: Float[Tensor, "item feature"]) -> Bool[Tensor, "item feature"]:
        return (features != 0) & (features != 1)


@described
class PoissonComponents(Components):
    """``x_j | z=k ~ Poisson(lambda_kj)``, independent, ``lambda_kj ~ Gamma(a, rate b)``; counts.

    Unlike in ``MultinomialComponents``, the total count of an item is evidence about its cluster.

    Parameters
    ----------
    num_clusters
        K.
    num_features
        Length of a count vector.
    shape
        a; 1/2 by default.
    rate
        b, the number of items that the prior counts as; 0.1 by default, so that the prior mean is 5
        and the standard deviation 7. For counts of another size, ``shape / rate`` should be about
        their mean.
    """

    support = "Poisson components need counts 0, 1, 2, ...: pass raw counts"

    def __init__(
        self,
        num_clusters: int,
        num_features: int,
        shape: Float[Tensor, " feature"] | float = 0.5,
        rate: Float[Tensor, " feature"] | float = 0.1,
    ) -> None:
        family = GammaPoisson(num_features)
        parts = (per_feature(part, num_features) for part in (shape, rate))
        super().__init__(num_clusters, family, family.natural(*parts))

    def summary(self, natural_parameters: Float[Tensor, "cluster size"]) -> ComponentSummary:
        """Rates."""
        shape, rate = self.family.standard(natural_parameters)
        return ComponentSummary(shape / rate, None)

    def coordinates(self, features: Float[Tensor, "item feature"]) -> Float[Tensor, "item feature"]:
        # Anscombe's transform, whose variance hardly depends on the rate.
        return 2 * (features + 3 / 8).sqrt()

    def outside(self, features: Float[Tensor, "item feature"]) -> Bool[Tensor, "item feature"]:
        return _not_a_count(features)
