"""What a fit says of its items and components, with doubt where nobody was asked.

Items that look alike share a component k, and with it what they are: its cluster ``c_k ~ m_k``. An
item is *bound* to its component with probability ``w_i``, and then in the cluster ``c_k``; else it
is in one of those nearby. So an answer about one item teaches about all of its component, and
however sure the model is, a component that was compared with nobody nearby is in doubt.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.spatial.distance import cdist

from pyro_crowdclust.asking.information import entropy
from pyro_crowdclust.mixture import Ownership
from pyro_crowdclust.protocols import FittedModel, SupportsMixture, part_of

# Probability that a component is of one cluster with others nearby, before anybody was asked.
_DOUBT = 0.7
# Pseudo-counts of items that are bound to their component, and that are not.
_BOUND = (9.0, 1.0)
# After so many items of a component one more is expected to tell half of what it seems to.
_HEARD_OUT = 5.0
# Clusters and components with fewer expected items are left out.
_IN_USE = 1e-6


@dataclass
class Beliefs:
    """Probabilities of clusters, and what an answer about one item teaches about others.

    Attributes
    ----------
    probabilities
        ``w_i m_k + (1 - w_i) m_nearby``: of the clusters in use, for every item.
    entropies
        Theirs.
    heard
        Probability that an item was asked about, and truly answered.
    wanted
        1 for items whose clusters are to be known, 0 for others.
    components
        Which component every item looks like; without columns where there are none.
    bound
        ``w_i``.
    taught
        What is yet to be told about all items of every component, in nats.
    """

    probabilities: Float[np.ndarray, "item cluster"]
    entropies: Float[np.ndarray, " item"]
    heard: Float[np.ndarray, " item"]
    wanted: Float[np.ndarray, " item"]
    components: Float[np.ndarray, "item component"]
    bound: Float[np.ndarray, " item"]
    taught: Float[np.ndarray, " component"]

    @classmethod
    def of(
        cls,
        result: FittedModel,
        heard: Float[np.ndarray, " item"],
        wanted: Float[np.ndarray, " item"],
    ) -> Beliefs:
        """Of a fit; ``heard`` says how well the answers so far can be trusted."""
        found = np.asarray(result.probabilities, dtype=np.float64)
        by_features = result.component_probabilities_by_features
        if by_features is None:
            used = found.sum(0) > _IN_USE
            found = found[:, used] / found[:, used].sum(1, keepdims=True)
            nothing = np.empty((len(found), 0)), np.zeros(len(found)), np.empty(0)
            return cls(found, entropy(found), heard, wanted, *nothing)
        alone = np.asarray(by_features, dtype=np.float64)
        after = np.asarray(result.component_probabilities, dtype=np.float64)
        here = alone.sum(0) + after.sum(0) > _IN_USE
        alone, after = alone[:, here], after[:, here]
        weight = heard[:, None]
        owners = _owners(result, len(here))
        nearby = _nearby(result, here)
        sizes = after.sum(0)
        larger = _larger(nearby, owners[here] @ (owners[here].T @ sizes))
        clusters = _clusters(result, owners, here, larger, (weight * alone).sum(0))
        stayed = (after @ _together(owners[here]) * alone).sum(1, keepdims=True)
        kept, left = (
            count + (weight * agreed * alone).sum(0)
            for count, agreed in zip(_BOUND, (stayed, 1 - stayed), strict=True)
        )
        purity = kept / (kept + left)
        components = weight * after + (1 - weight) * alone
        bound = heard + (1 - heard) * (alone @ purity)
        probabilities = bound[:, None] * (components @ clusters)
        probabilities += (1 - bound)[:, None] * (alone @ nearby @ clusters)
        probabilities = probabilities / probabilities.sum(1, keepdims=True)
        others = (wanted * (1 - heard)) @ (alone * purity)
        # What n answers have not told of a component, one more is the less likely to.
        taught = others * entropy(clusters) / (1 + (weight * alone).sum(0) / _HEARD_OUT)
        return cls(probabilities, entropy(probabilities), heard, wanted, components, bound, taught)

    def own(self, items: Int[np.ndarray, " question"]) -> Float[np.ndarray, " question"]:
        """What there is to tell of these items alone, in nats, as far as they are wanted."""
        return self.wanted[items] * self.entropies[items]

    def others(self, items: Int[np.ndarray, " question"]) -> Float[np.ndarray, " question"]:
        """What knowing the cluster of each tells of all others of its component, in nats."""
        return self.bound[items] * (self.components[items] ** 2 @ self.taught)

    def expect(self, item: int, share: float) -> None:
        """Such a share of what there is to tell of a component is about to be told."""
        self.taught = self.taught * (1 - share * self.bound[item] * self.components[item])

    def surest(self, per_cluster: int) -> Int[np.ndarray, " item"]:
        """The items whose clusters are best known, some of every cluster."""
        number = min(per_cluster, len(self.probabilities))
        return np.unique(np.argpartition(-self.probabilities, number - 1, axis=0)[:number])

    def is_known(self, items: Int[np.ndarray, " question"]) -> Bool[np.ndarray, " question"]:
        """Items that were asked about, and whose cluster is as good as certain."""
        return (self.heard[items] > 0.5) & (self.probabilities[items].max(1) > 0.9)


def _owners(result: FittedModel, num_components: int) -> Float[np.ndarray, "component cluster"]:
    """q(c) in the guide's order of the clusters; the identity where components are clusters."""
    if result.owners is None:
        return np.eye(num_components)
    order = result.cluster_order
    return result.owners if order is None else result.owners[:, order.argsort()]


def _together(
    owners: Float[np.ndarray, "used cluster"],
) -> Float[np.ndarray, "used used"]:
    same = owners @ owners.T
    np.fill_diagonal(same, 1.0)
    return same


def _clusters(
    result: FittedModel,
    owners: Float[np.ndarray, "component cluster"],
    here: Bool[np.ndarray, " component"],
    nearby: Float[np.ndarray, "used used"],
    num_heard: Float[np.ndarray, " used"],
) -> Float[np.ndarray, "used known"]:
    """m_k: the cluster of every component, if those nearby are more likely to share one.

    Where clusters own components, q(c_k) was made with a prior that knows of no distance; that is
    divided out, and the one with distances takes its place. Else the model says that every
    component is a cluster of its own, which counts once, and once more for every item of it that
    was asked about.
    """
    own = np.eye(len(owners))[here]
    doubt = _DOUBT * nearby.sum(1, keepdims=True)
    prior = (1 - doubt) * own + _DOUBT * nearby @ owners[here]
    ownership = part_of(result.model, "ownership", Ownership)
    if ownership is None:
        count = num_heard[:, None]
        clusters = (prior + count * own) / (1 + count)
    else:
        flat = np.exp(ownership.prior.natural_parameters.numpy(force=True))[here]
        clusters = owners[here] * prior / flat + 1e-12
        clusters = clusters / clusters.sum(1, keepdims=True)
    return clusters[:, clusters.sum(0) > _IN_USE]


def _larger(
    nearby: Float[np.ndarray, "used used"], sizes: Float[np.ndarray, " used"]
) -> Float[np.ndarray, "used used"]:
    """Which components nearby are larger: of two that may be one, the smaller is in doubt.

    If both were, the items of the larger would count as open, too; but it is the smaller one's
    that get another cluster.
    """
    order = np.lexsort([np.arange(len(sizes)), sizes])
    rank = np.argsort(order)
    shares = np.where(rank[None, :] > rank[:, None], nearby, 0.0)
    return shares / np.maximum(shares.sum(1, keepdims=True), 1e-300)


def _nearby(
    result: FittedModel, here: Bool[np.ndarray, " component"]
) -> Float[np.ndarray, "used used"]:
    """How near the other components are to each, as shares: ``exp(-2 (d^2 - nearest) / h)``.

    d is the distance of their means in units of the spread inside components, h the mean over the
    components of the squared distance to the nearest one.
    """
    number = int(here.sum())
    others = 1.0 - np.eye(number)
    if number > 1 and isinstance(result.guide, SupportsMixture):
        mixture = result.guide.mixture()
        means = mixture.location.double().numpy(force=True)[here]
        if mixture.covariance is not None:
            weights = mixture.weights.double().numpy(force=True)[here]
            spread = mixture.covariance.double().numpy(force=True)[here]
            spread = np.tensordot(weights / weights.sum(), spread, 1)
            full = spread if spread.ndim == 2 else np.diag(spread)
            means = np.linalg.solve(np.linalg.cholesky(full), means.T).T
        distance = cdist(means, means, "sqeuclidean")
        np.fill_diagonal(distance, np.inf)
        nearest = distance.min(1, keepdims=True)
        others = np.exp(-2 * (distance - nearest) / max(nearest.mean(), 1e-12))
    return others / np.maximum(others.sum(1, keepdims=True), 1e-300)
