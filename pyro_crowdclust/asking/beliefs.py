"""What a fit says of its items, with doubt where nobody was asked.

Items that look alike, by the features alone, are balls of one urn: the composition of the items of
component k over the clusters is ``phi_k ~ Dirichlet(b_k)``. The counts b_k begin with what the
model says of the component, as if one ball had been seen, and have a count for every item of it
that was asked about. So a component about which nobody was asked is uncertain however sure the
model is, and one whose asked items lie in different clusters stays so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from pyro_crowdclust.asking.information import entropy, urn_information
from pyro_crowdclust.protocols import FittedModel

# How many balls the model's word for a component counts, and which part of it is doubted.
_TRUST = 1.0
_DOUBT = 0.1
# Clusters and components with fewer expected items are left out.
_IN_USE = 1e-6


@dataclass
class Beliefs:
    """Probabilities of clusters, and what an answer about one item teaches about others.

    Attributes
    ----------
    probabilities
        Of the clusters in use, for every item.
    heard
        Probability that an item was asked about, and truly answered.
    wanted
        1 for items whose clusters are to be known, 0 for others.
    responsibilities
        Of the components, by the features alone; None where there are none.
    urns
        The counts b of every component.
    """

    probabilities: Float[np.ndarray, "item cluster"]
    heard: Float[np.ndarray, " item"]
    wanted: Float[np.ndarray, " item"]
    responsibilities: Float[np.ndarray, "item component"] | None
    urns: Float[np.ndarray, "component cluster"] | None

    @classmethod
    def of(
        cls,
        result: FittedModel,
        heard: Float[np.ndarray, " item"],
        wanted: Float[np.ndarray, " item"],
    ) -> Beliefs:
        """Of a fit; ``heard`` says how well the answers so far can be trusted."""
        found = np.asarray(result.probabilities, dtype=np.float64)
        used = found.sum(0) > _IN_USE
        used[:1] = True
        found = found[:, used] / found[:, used].sum(1, keepdims=True)
        by_features = result.component_probabilities_by_features
        if by_features is None:
            return cls(found, heard, wanted, None, None)
        responsibilities = np.asarray(by_features, dtype=np.float64)
        claims = _claims(result, responsibilities.shape[1])[:, used]
        here = (responsibilities.sum(0) > _IN_USE) & (claims.sum(1) > _IN_USE)
        responsibilities, claims = responsibilities[:, here], claims[here]
        shares = found.mean(0)
        claims = claims / claims.sum(1, keepdims=True)
        urns = _TRUST * ((1 - _DOUBT) * claims + _DOUBT * shares)
        urns += (responsibilities * heard[:, None]).T @ found
        drawn = responsibilities @ (urns / urns.sum(1, keepdims=True))
        drawn = drawn / drawn.sum(1, keepdims=True)
        blended = heard[:, None] * found + (1 - heard[:, None]) * drawn
        return cls(blended, heard, wanted, responsibilities, urns)

    @cached_property
    def entropies(self) -> Float[np.ndarray, " item"]:
        """Of the cluster of every item."""
        return entropy(self.probabilities)

    @cached_property
    def _unheard(self) -> Float[np.ndarray, " component"]:
        """Expected items of every component that are wanted and were not asked about."""
        assert self.responsibilities is not None
        return (self.wanted * (1 - self.heard)) @ self.responsibilities

    def values(self, items: Int[np.ndarray, " question"]) -> Float[np.ndarray, " question"]:
        """What it is worth to know the clusters of these items, each by itself, in nats.

        Their own entropy, if they are wanted, and the information about all others of their urns.
        """
        own = self.wanted[items] * self.entropies[items]
        if self.urns is None or self.responsibilities is None:
            return own
        return own + self.responsibilities[items] @ (self._unheard * urn_information(self.urns))

    def expect(self, item: int, reliability: float) -> None:
        """Count an item that is about to be asked about, so that the next ones are others."""
        if self.urns is not None and self.responsibilities is not None:
            seen = reliability * self.responsibilities[item]
            self.urns += seen[:, None] * self.probabilities[item]

    def surest(self, per_cluster: int) -> Int[np.ndarray, " item"]:
        """The items whose clusters are best known, some of every cluster."""
        number = min(per_cluster, len(self.probabilities))
        return np.unique(np.argpartition(-self.probabilities, number - 1, axis=0)[:number])

    def is_known(self, items: Int[np.ndarray, " question"]) -> Bool[np.ndarray, " question"]:
        """Items that were asked about, and whose cluster is as good as certain."""
        return (self.heard[items] > 0.5) & (self.probabilities[items].max(1) > 0.9)


def _claims(result: FittedModel, num_components: int) -> np.ndarray:
    """Which cluster every component belongs to, by the model."""
    if result.owners is not None:
        return np.asarray(result.owners)
    order = result.cluster_order
    identity = np.eye(num_components)
    return identity if order is None else identity[:, order]
