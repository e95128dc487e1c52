"""q(z) of a fit's own items as a user reads it: clusters, and who is with whom how surely."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from pyro_crowdclust.distributions.pairs import components_together
from pyro_crowdclust.protocols import FittedModel, SupportsMixture
from pyro_crowdclust.results.cluster_numbers import ClusterNumbers
from pyro_crowdclust.results.guide_verbs import with_verb
from pyro_crowdclust.results.tables import clusters_table, read_only


class InferredPartition:
    """What is read from q(z) of the items, by the verbs of ``DrawnPartition``.

    Parameters
    ----------
    result
        The fit; nothing is inferred before it is read.
    numbers
        From its components to clusters.
    """

    def __init__(self, result: FittedModel, numbers: ClusterNumbers) -> None:
        self._result, self._numbers = result, numbers

    @cached_property
    def _table(self) -> Float[np.ndarray, "item cluster"]:
        return read_only(self._numbers.of_items(self._result.component_probabilities))

    def probabilities(
        self, items: Int[np.ndarray, " item"] | None = None
    ) -> Float[np.ndarray, "item cluster"]:
        """``sum_l q(z_i = l) q(c_l = k)``, of items at these positions; default all."""
        return self._table if items is None else self._table[items]

    @property
    def assignments(self) -> Int[np.ndarray, " item"]:
        """The most probable cluster of every item."""
        return self._table.argmax(1)

    @property
    def own_shares(self) -> Float[np.ndarray, " item"]:
        """The probability of that cluster."""
        return self._table.max(1)

    def same(
        self, left: Int[np.ndarray, " pair"], right: Int[np.ndarray, " pair"]
    ) -> Float[np.ndarray, " pair"]:
        """``sum_kl q(z_i = k) B_kl q(z_j = l)``; 1 for an item and itself."""
        items = self._result.component_probabilities.numpy()
        of_right = items[right]
        if self._numbers.owners is not None:
            of_right = of_right @ components_together(self._numbers.owners).numpy()
        return np.where(left == right, 1.0, (items[left] * of_right).sum(1))

    def clusters(self) -> pd.DataFrame:
        """One row per cluster: expected and assigned items, share and weight."""
        weights, result = None, self._result
        is_own = result.data.class_labels is None and result.has_assignments
        if isinstance(result.guide, SupportsMixture) or not is_own:
            summary = with_verb(result.guide, SupportsMixture, "mixture").mixture()
            of_guide = self._numbers.of_guide(summary.weights.double().cpu())
            weights = self._numbers.in_order(of_guide.numpy())
        return clusters_table(weights, self._table, self.assignments)
