"""Clusters and co-membership probabilities that are computed from q(z) of the training items."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.annotators.sorted_pages import SortedPages
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.distributions.pairs import components_together
from pyro_crowdclust.protocols import (
    FittedModel,
    SupportsMixture,
    SupportsRateStatistics,
    part_of,
)
from pyro_crowdclust.results.cluster_doubt import ClusterDoubt
from pyro_crowdclust.results.cluster_numbers import ClusterNumbers
from pyro_crowdclust.results.guide_verbs import with_verb
from pyro_crowdclust.results.tables import clusters_table, pages_table, read_only


class InferredItems(FittedModel, Protocol):
    """A fit whose guide infers q of the items."""

    @property
    def inferred_latents(self) -> Float[Tensor, "item dim"] | None:
        """E_q[x_i] of every training item, or None."""


class InferredPartition:
    """Results from q(z) of the items, with the methods of ``DrawnPartition``.

    Parameters
    ----------
    result
        The fit; q(z) is inferred when it is first needed.
    numbers
        The mapping from its components to clusters.
    doubt
        Whether its components are kinds; None if that is not in doubt.
    """

    # An update starts from the learned parameters.
    keeps_start: ClassVar[bool] = True

    def __init__(
        self, result: InferredItems, numbers: ClusterNumbers, doubt: ClusterDoubt | None = None
    ) -> None:
        self._result, self._numbers, self._doubt = result, numbers, doubt

    @cached_property
    def _table(self) -> Float[np.ndarray, "item cluster"]:
        return read_only(self._numbers.of_items(self._result.component_probabilities))

    @cached_property
    def _components(self) -> Float[np.ndarray, "item component"]:
        # Kept, since the fit copies q(z) of all items for every reader.
        return self._result.component_probabilities.numpy()

    def probabilities(
        self, items: Int[np.ndarray, " item"] | None = None
    ) -> Float[np.ndarray, "item cluster"]:
        """``sum_l q(z_i = l) q(c_l = k)`` of the items at these positions; default: all items."""
        return self._table if items is None else self._table[items]

    @property
    def assignments(self) -> Int[np.ndarray, " item"]:
        """The most probable cluster of every item."""
        return self._table.argmax(1)

    @property
    def own_shares(self) -> Float[np.ndarray, " item"]:
        """The probability of the most probable cluster of every item, given the doubt."""
        assignments = self._result.component_probabilities
        return self._numbers.own_shares(self._table, assignments, self._doubt)

    def same(
        self, left: Int[np.ndarray, " pair"], right: Int[np.ndarray, " pair"]
    ) -> Float[np.ndarray, " pair"]:
        """``sum_kl q(z_i = k) B_kl q(z_j = l)``; 1 for an item and itself.

        B is that of the doubt, if there is one, or else that of the ownership, or the identity.
        """
        items = self._components
        of_right = items[right]
        if self._doubt is not None:
            of_right = of_right @ self._doubt.together.numpy()
        elif self._numbers.owners is not None:
            of_right = of_right @ components_together(self._numbers.owners).numpy()
        return np.where(left == right, 1.0, (items[left] * of_right).sum(1))

    @property
    def latent_means(self) -> Float[np.ndarray, "item dim"] | None:
        """E_q[x_i] of every item; None where the features are the latents."""
        latents = self._result.inferred_latents
        return None if latents is None else read_only(latents.numpy())

    def clusters(self) -> pd.DataFrame:
        """One row per cluster: expected and assigned items, share and weight."""
        weights, result = None, self._result
        is_own = result.data.class_labels is None and result.has_assignments
        is_mixture = isinstance(result.guide, SupportsMixture)
        if result.data.class_labels is not None and not is_mixture:
            raise ValueError(
                "the items have classes, which workers named, and not clusters: read "
                "result.class_probabilities"
            )
        if is_mixture or not is_own:
            summary = with_verb(result.guide, SupportsMixture, "mixture").mixture()
            of_guide = self._numbers.of_guide(summary.weights.double().cpu())
            weights = self._numbers.in_order(of_guide.numpy())
        return clusters_table(weights, self._table, self.assignments)

    def pages(self, data: CrowdData) -> pd.DataFrame | None:
        """One row per sorted page of the data; None if the model does not describe such pages."""
        annotators = part_of(self._result.model, "annotators", SortedPages)
        if annotators is None or data.placements is None:
            return None
        of_guide = with_verb(self._result.guide, SupportsRateStatistics, "pages").rate_statistics()
        rates = {name: statistics.cpu() for name, statistics in of_guide.items()}
        return pages_table(annotators, rates, self._table, data)
