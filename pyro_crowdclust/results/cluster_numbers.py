"""The mapping from a guide's components to the numbered clusters of a result."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.data.stored_features import StoredFeatures
from pyro_crowdclust.mixture.ownership import Ownership
from pyro_crowdclust.protocols import FittedModel, SupportsMixture, part_of, posteriors_of
from pyro_crowdclust.results.cluster_doubt import ClusterDoubt
from pyro_crowdclust.supervision.supervision import Supervision


class ClusterNumbers:
    """Which cluster every component of a fit belongs to, and which number each cluster has.

    Parameters
    ----------
    result
        The fit. Its ``cluster_order`` is ``by_size()``, or was when the fit was saved.
    """

    def __init__(self, result: FittedModel) -> None:
        self._result = result

    @cached_property
    def owners(self) -> Float[Tensor, "component cluster"] | None:
        """q(c) of every component, clusters in the guide's order; None if each is a cluster."""
        posteriors = posteriors_of(self._result.guide)
        if posteriors is None or "owners" not in posteriors:
            return None
        return posteriors["owners"].mean().cpu()

    @cached_property
    def _owners_by_name(self) -> Float[Tensor, "component cluster"] | None:
        """``owners``; a component alone in its cluster also gets the share of unused labels."""
        if self.owners is None:
            return None
        result = self._result
        if isinstance(result.data.features, StoredFeatures):
            sizes = result.guide.mixture().weights.double().cpu() * result.data.num_items
        else:
            sizes = result.component_probabilities.sum(0)
        return Ownership.by_name(self.owners, sizes)

    def by_size(self) -> Int[np.ndarray, " cluster"] | None:
        """The guide's number of every cluster, largest first; None: the guide's order is kept.

        Where the number of clusters is bounded, names that no component can have are left out.
        """
        result = self._result
        supervision = part_of(result.model, "supervision", Supervision)
        has_names = supervision is not None and supervision.names_clusters
        if not isinstance(result.guide, SupportsMixture) or has_names:
            return None
        if isinstance(result.data.features, StoredFeatures):
            weights = self.of_guide(result.guide.mixture().weights.double().cpu())
            return self._possible(np.argsort(-weights.numpy(), kind="stable"))
        q = self.of_guide(result.component_probabilities).numpy()
        assigned = np.bincount(q.argmax(1), minlength=q.shape[1])
        return self._possible(np.lexsort([-q.sum(0), -assigned]))

    def _possible(self, order: Int[np.ndarray, " cluster"]) -> Int[np.ndarray, " possible"]:
        """The clusters that may have components, in the same order."""
        ownership = part_of(self._result.model, "ownership", Ownership)
        if self.owners is None or ownership is None or ownership.max_clusters is None:
            return order
        return order[(self.owners > 0).any(0).numpy()[order]]

    def in_order(self, of_clusters: Any) -> Any:
        """A table with one row per cluster of the guide, in the order of the clusters."""
        order = self._result.cluster_order
        return of_clusters if order is None else of_clusters[order]

    def of_guide(self, assignments: Tensor) -> Tensor:
        """Probabilities of clusters from those of components, in the guide's order."""
        owners = self._owners_by_name
        return assignments if owners is None else assignments @ owners

    def of_items(
        self, assignments: Float[Tensor, "item component"]
    ) -> Float[np.ndarray, "item cluster"]:
        """Probabilities of clusters from those of components, in the order of the clusters."""
        # Sums of rounded probabilities may be a hair above 1.
        array, order = self.of_guide(assignments).clamp(max=1).numpy(), self._result.cluster_order
        return array if order is None else array[:, order]

    def own_shares(
        self,
        table: Float[np.ndarray, "item cluster"],
        assignments: Float[Tensor, "item component"],
        doubt: ClusterDoubt | None,
    ) -> Float[np.ndarray, " item"]:
        """The probability of the most probable cluster of every item.

        ``sum_k q(z_i = k) whole_k`` over the components k of that cluster; without a doubt
        ``whole`` is 1.

        Parameters
        ----------
        table, assignments
            ``of_items(assignments)``, and q(z).
        doubt
            Whether the components are kinds; None if that is not in doubt.
        """
        if doubt is None:
            return table.max(1)
        whole = self.of_items(assignments * doubt.whole)
        return whole[np.arange(len(table)), table.argmax(1)]
