"""Components for rows whose features are of several types."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import chain
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from pyro_crowdclust.distributions.summaries import ComponentSummary
from pyro_crowdclust.families import ProductFamily
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.mixture.components import Components


@described
class MixedComponents(Components):
    """Rows of mixed type: given the cluster, each group of columns has components of its own.

    Parameters
    ----------
    parts
        Components of the library or user-defined ones, all with the same ``num_clusters``.
    columns
        The columns of the data that each part describes, every column once. By default the first
        part has the first columns, and so on.

    Raises
    ------
    ValueError
        If the parts have different numbers of clusters, a column is in none of them or in two, or
        a part has heavy tails.

    Examples
    --------
    >>> from pyro_crowdclust.mixture import (
    ...     BernoulliComponents,
    ...     DiagonalGaussianComponents,
    ... )
    >>> components = MixedComponents(
    ...     [DiagonalGaussianComponents(3, 2), BernoulliComponents(3, 1)], columns=[[0, 2], [1]]
    ... )
    >>> components.num_features, components.column_labels()
    (3, [0, 2, 1])
    """

    # Makes one family from those of the parts.
    product: type[ProductFamily] = ProductFamily
    family: ProductFamily
    _order: Tensor
    _place: Tensor

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
        every = list(chain(*columns))
        if [len(part) for part in columns] != sizes or sorted(every) != [*range(sum(sizes))]:
            raise ValueError(
                f"columns are {columns}, but the parts take {sizes} columns: give every column "
                f"from 0 to {sum(sizes) - 1} to one part"
            )
        for part in parts:
            if not part.is_linear:
                raise ValueError(
                    f"{type(part).__name__} with heavy tails cannot be a part of mixed components, "
                    "which would treat it as Gaussian: leave out tails, or do not mix"
                )
        family = self.product(tuple(part.family for part in parts))
        eta = torch.cat([part.prior.natural_parameters for part in parts], -1)
        super().__init__(clusters.pop(), family, eta)
        self.parts: Any = nn.ModuleList(parts)
        self.columns = columns
        order = torch.tensor(every)
        self.register_buffer("_order", order)
        self.register_buffer("_place", order.argsort())

    @property
    def is_continuous(self) -> Bool[Tensor, " feature"]:
        return torch.cat([part.is_continuous for part in self.parts])[self._place]

    def column_labels(self, names: Sequence[Hashable] | None = None) -> list[Hashable]:
        names = super().column_labels(names)
        pairs = zip(self.parts, self.columns, strict=True)
        return sum((part.column_labels([names[c] for c in own]) for part, own in pairs), [])

    def part_labels(self, names: Sequence[Hashable]) -> dict[str, list[Hashable]]:
        return {
            f"_{number}{inner}": labels
            for number, (part, own) in enumerate(zip(self.parts, self.columns, strict=True))
            for inner, labels in part.part_labels([names[column] for column in own]).items()
        }

    @property
    def summary_features(self) -> list[int]:
        pairs = zip(self.parts, self.columns, strict=True)
        return [own[column] for part, own in pairs for column in part.summary_features]

    def in_units(self, value: tuple, location: Tensor, scale: Tensor) -> tuple:
        parts = zip(self.parts, value, self.columns, strict=True)
        return tuple(part.in_units(own, location[at], scale[at]) for part, own, at in parts)

    def _pairs(self, features: Float[Tensor, "item feature"]) -> list[tuple[Components, Tensor]]:
        pairs = zip(self.parts, self.columns, strict=True)
        return [(part, features[:, columns]) for part, columns in pairs]

    def summary(self, natural_parameters: Float[Tensor, "cluster size"]) -> ComponentSummary:
        pairs = zip(self.parts, self.family.split(natural_parameters), strict=True)
        locations = [part.summary(eta).location for part, eta in pairs]
        return ComponentSummary(torch.cat(locations, -1), None)

    def learned_prior(self, statistics: Float[Tensor, " size"]) -> Float[Tensor, " size"]:
        """The learned priors of the parts; a part that does not learn one keeps its prior."""
        own = self.family.split(self.prior.natural_parameters[0])
        means = self.family.split(statistics)
        learned = [
            kept if (found := part.learned_prior(mean)) is None else found
            for part, kept, mean in zip(self.parts, own, means, strict=True)
        ]
        return torch.cat(learned)

    def in_own_order(self, features: Float[Tensor, "item feature"]) -> Tensor:
        return features[:, self._order]

    def features(self, observation: Float[Tensor, "item observation"]) -> Tensor:
        return self.family.features(observation)[:, self._place]

    def coordinates(self, features: Float[Tensor, "item feature"]) -> Float[Tensor, "item column"]:
        # Every feature counts equally: a part of m features has total variance m.
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
