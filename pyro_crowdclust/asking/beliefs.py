"""Cluster probabilities for choosing questions, less certain than the fit's where answers lack.

Items with similar features share a component k, which has a cluster ``c_k``. An item is *bound* to
its component with probability ``b_i``: then it is in the cluster ``c_k``, otherwise in the cluster
of a component nearby. So an answer about one item is informative about all items of its component.
The cluster of a component that was not compared with others is uncertain, however certain the fit
is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.spatial.distance import cdist
from scipy.special import expit, logit

from pyro_crowdclust.asking.evidence import component_gain, expert_gain
from pyro_crowdclust.asking.information import entropy, mutual_information
from pyro_crowdclust.asking.partitions import draw_roots
from pyro_crowdclust.distributions.pairs import components_together
from pyro_crowdclust.families import SMALLEST_PROBABILITY
from pyro_crowdclust.mixture.nearness import near_shares, standardize
from pyro_crowdclust.protocols import FittedModel, SupportsMixture
from pyro_crowdclust.results.coordinates import component_coordinates

# Pseudo-counts of items that are bound to their component, and that are not.
_BOUND = (9.0, 1.0)
# Difference in the log odds of being bound between the item closest to the mean of its component
# and the outermost one.
_CORE = 6.0
# After this many answered items of a component, the information of the next one is halved.
_HALF_AFTER = 5.0
# The fit's own clusters of components are added once for every three draws. Where draws use answers
# that the fit did not use, the two differ, and the clusters are uncertain.
_FIT = 3
# Clusters and components with fewer expected items are left out.
_IN_USE = 1e-6


@dataclass(frozen=True, kw_only=True)
class Beliefs:
    """Probabilities of clusters, and the information in an answer about one item on others.

    Components are sorted by the sizes of their clusters, then by their own size, largest first. A
    cluster has the index of its first component. Classes that workers name keep the order of the
    data, which is that of the workers' confusion matrices.

    Attributes
    ----------
    probabilities
        ``b_i m_k + (1 - b_i) m_nearby`` with ``m_kc = p(c_k = c)``: of clusters, for every item.
    entropies
        Entropies of ``probabilities``.
    answered
        Probability that an item was asked about and answered correctly, not by chance.
    wanted
        1 for items whose clusters are wanted, 0 for others; less if questions that were chosen for
        this batch are already informative about them.
    components
        Probabilities of the components of every item; no columns if there are no components.
    bound
        ``b_i``.
    together
        Probability that two components are one cluster.
    information
        Mutual information of the clusters of two components, in nats.
    roots
        Draws of the clusters of all components.
    unasked
        Number of wanted items of every component that nobody was asked about.
    remaining
        ``unasked``, discounted by the answers about items of the component.
    """

    probabilities: Float[np.ndarray, "item cluster"]
    entropies: Float[np.ndarray, " item"]
    answered: Float[np.ndarray, " item"]
    wanted: Float[np.ndarray, " item"]
    components: Float[np.ndarray, "item component"]
    bound: Float[np.ndarray, " item"]
    together: Float[np.ndarray, "component component"]
    information: Float[np.ndarray, "component component"]
    roots: Int[np.ndarray, "draw component"]
    unasked: Float[np.ndarray, " component"]
    remaining: Float[np.ndarray, " component"]

    @classmethod
    def of(
        cls,
        result: FittedModel,
        answered: Float[np.ndarray, " item"],
        wanted: Float[np.ndarray, " item"],
        channels: Float[np.ndarray, "worker truth label"],
        generator: np.random.Generator,
    ) -> Beliefs:
        """Beliefs from a fit.

        ``answered`` and ``wanted`` are as in the attributes; ``channels`` has
        ``p(answer about a pair | different)`` and ``p(... | same)`` of the fit's workers.
        """
        by_features = result.component_probabilities_by_features
        if by_features is None:
            return cls._without_components(result, answered, wanted)
        alone = np.asarray(by_features, dtype=np.float64)
        after = np.asarray(result.component_probabilities, dtype=np.float64)
        owners = np.eye(alone.shape[1]) if result.owners is None else result.owners
        order = _order(alone, after, owners)
        owners = owners[order]
        alone, after = alone[:, order], after[:, order]
        weight = answered[:, None]
        together = components_together(torch.from_numpy(owners)).numpy()
        stayed = (after @ together * alone).sum(1, keepdims=True)
        kept, left = (
            count + (weight * agreed * alone).sum(0)
            for count, agreed in zip(_BOUND, (stayed, 1 - stayed), strict=True)
        )
        purity = kept / (kept + left)
        bound_unasked = expit(logit(alone @ purity) + _CORE * _depth(result, alone, order))
        near = _near_larger(result, order)
        if result.data.class_labels is None:
            gain = component_gain(result.data, alone, bound_unasked, channels)
            gain += expert_gain(result.data, alone, bound_unasked)
            roots = draw_roots(gain, near, owners.argmax(1), generator)
            if result.owners is not None:
                roots = np.vstack([roots, *[_first_of(owners.argmax(1))] * (len(roots) // _FIT)])
            clusters = np.stack([(roots == name).mean(0) for name in range(len(order))], 1)
        else:  # classes are known to be different
            roots = np.arange(len(order))[None]
            clusters = owners
        components = weight * after + (1 - weight) * alone
        bound = answered + (1 - answered) * bound_unasked
        probabilities = bound[:, None] * (components @ clusters)
        probabilities += (1 - bound)[:, None] * (alone @ near @ clusters)
        probabilities = probabilities / probabilities.sum(1, keepdims=True)
        # The more answers about a component there are, the less information is in one more.
        discount = 1 + (weight * alone).sum(0) / _HALF_AFTER
        unasked = (wanted * (1 - answered)) @ (alone * purity)
        return cls(
            probabilities=probabilities,
            entropies=entropy(probabilities),
            answered=answered,
            wanted=wanted,
            components=components,
            bound=bound,
            together=np.stack([(roots == one[:, None]).mean(0) for one in roots.T]),
            information=mutual_information(roots),
            roots=roots,
            unasked=unasked,
            remaining=unasked / discount,
        )

    @classmethod
    def _without_components(
        cls,
        result: FittedModel,
        answered: Float[np.ndarray, " item"],
        wanted: Float[np.ndarray, " item"],
    ) -> Beliefs:
        """Beliefs from a fit without features: an answer has information on its own items only."""
        found = np.asarray(result.probabilities, dtype=np.float64)
        if result.data.class_labels is None:
            found = found[:, found.sum(0) > _IN_USE]
        found = found / found.sum(1, keepdims=True)
        return cls(
            probabilities=found,
            entropies=entropy(found),
            answered=answered,
            wanted=wanted,
            components=np.empty((len(found), 0)),
            bound=np.zeros(len(found)),
            together=np.empty((0, 0)),
            information=np.empty((0, 0)),
            roots=np.empty((1, 0), dtype=int),
            unasked=np.empty(0),
            remaining=np.empty(0),
        )

    @property
    def taught(self) -> Float[np.ndarray, " component"]:
        """The information in the cluster of each component about all items, in nats."""
        return self.information @ self.remaining

    def same(
        self, left: Int[np.ndarray, " pair"], right: Int[np.ndarray, " pair"]
    ) -> Float[np.ndarray, " pair"]:
        """Probability that two items are in one cluster."""
        bound = self.bound[left] * self.bound[right]
        together = ((self.components[left] @ self.together) * self.components[right]).sum(1)
        return bound * together + (1 - bound) * (
            self.probabilities[left] * self.probabilities[right]
        ).sum(1)

    def own(self, items: Int[np.ndarray, " question"]) -> Float[np.ndarray, " question"]:
        """Entropies of the clusters of these items, in nats, times ``wanted``."""
        return self.wanted[items] * self.entropies[items]

    def expected_moved(self, gain: float) -> float:
        """Expected number of wanted items whose most probable cluster changes.

            sum_i w_i (1 - max_c q_ic) s ,    s = min(1, gain / sum_i w_i H(q_i))

        Answers that show the cluster of an item with probability s, and otherwise nothing, have
        information ``s H(q_i)`` about it, and move it with probability ``s (1 - max_c q_ic)``.

        Parameters
        ----------
        gain
            Information of the answers, in nats.
        """
        entropies = self.wanted * self.entropies
        share = min(gain / max(entropies.sum(), SMALLEST_PROBABILITY), 1.0)
        # Entropy beyond that of q, of listed pairs, is as if of equally probable clusters.
        beyond = self.entropies - entropy(self.probabilities)
        wrong = np.maximum(1 - self.probabilities.max(1), 1 - np.exp(-beyond))
        return float(share * (self.wanted @ wrong))

    def others(self, items: Int[np.ndarray, " question"]) -> Float[np.ndarray, " question"]:
        """The information in the cluster of each item about other items, in nats."""
        return self.bound[items] * (self.components[items] ** 2 @ self.taught)

    def expect(self, item: int, share: float) -> Beliefs:
        """Beliefs with less ``remaining``, after an answer with this share of an item's entropy."""
        gained = share * self.bound[item] * self.components[item] @ self.information
        own = np.maximum(self.information.diagonal(), 1e-12)
        return replace(self, remaining=self.remaining * (1 - gained / own))

    def expect_placed(
        self,
        items: Int[np.ndarray, " placed"],
        shares: Float[np.ndarray, " placed"],
        reliability: float,
    ) -> Beliefs:
        """Beliefs after a page of the batch, which gives these shares of the items' entropies."""
        answered, wanted = self.answered.copy(), self.wanted.copy()
        answered[items] = 1 - (1 - answered[items]) * (1 - reliability)
        wanted[items] *= 1 - shares
        return replace(self, answered=answered, wanted=wanted)

    def most_certain(self, per_cluster: int) -> Int[np.ndarray, " item"]:
        """The items with the most certain clusters, ``per_cluster`` of every cluster."""
        number = min(per_cluster, len(self.probabilities))
        return np.unique(np.argpartition(-self.probabilities, number - 1, axis=0)[:number])

    def is_known(self, items: Int[np.ndarray, " question"]) -> Bool[np.ndarray, " question"]:
        """Whether items were asked about, and their clusters are nearly certain."""
        return (self.answered[items] > 0.5) & (self.probabilities[items].max(1) > 0.9)


def _order(
    alone: Float[np.ndarray, "item component"],
    after: Float[np.ndarray, "item component"],
    owners: Float[np.ndarray, "component cluster"],
) -> Int[np.ndarray, " used"]:
    """Components in use, sorted by the sizes of their clusters, then by their own sizes."""
    sizes = after.sum(0)
    order = np.lexsort([-sizes, -(owners @ (owners.T @ sizes)).round(9)])
    return order[(alone.sum(0) + sizes)[order] > _IN_USE]


def _first_of(groups: Int[np.ndarray, " used"]) -> Int[np.ndarray, " used"]:
    """The first component in the group of every component."""
    _, first, place = np.unique(groups, return_index=True, return_inverse=True)
    return first[place]


def _near_larger(
    result: FittedModel, order: Int[np.ndarray, " used"]
) -> Float[np.ndarray, "used used"]:
    """How near the larger components are to each component, as shares.

    Only larger ones count: if two components are one cluster, it has the index of the larger one.
    """
    number = len(order)
    even = np.tril(np.ones((number, number)), -1)
    shares = even
    if isinstance(result.guide, SupportsMixture):
        shares = np.tril(near_shares(result.guide.mixture())[np.ix_(order, order)], -1)
    shares = np.where(shares.sum(1, keepdims=True) > 0, shares, even)
    return shares / np.maximum(shares.sum(1, keepdims=True), SMALLEST_PROBABILITY)


def _depth(
    result: FittedModel,
    alone: Float[np.ndarray, "item component"],
    order: Int[np.ndarray, " used"],
) -> Float[np.ndarray, " item"]:
    """From 1/2 for the item closest to the mean of its component to -1/2 for the outermost."""
    depth = np.zeros(len(alone))
    on_disk = not isinstance(result.data.features, torch.Tensor | np.ndarray)
    if not isinstance(result.guide, SupportsMixture) or (result.latent_means is None and on_disk):
        return depth
    mixture = result.guide.mixture()
    means = mixture.location.double().numpy(force=True)[order]
    points = component_coordinates(result).astype(np.float64)
    if points.shape[1] != means.shape[1]:
        return depth
    points, means = standardize(mixture, points), standardize(mixture, means)
    component = alone.argmax(1)
    for one, mean in enumerate(means):
        inside = np.flatnonzero(component == one)
        rank = cdist(points[inside], mean[None])[:, 0].argsort().argsort()
        depth[inside] = 0.5 - (rank + 0.5) / len(inside) if len(inside) else 0.0
    return depth
