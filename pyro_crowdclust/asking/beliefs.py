"""What a fit says of its items and components, with doubt where nobody was asked.

Items that look alike share a component k, and with it what they are: its cluster ``c_k``. An item
is *bound* to its component with probability ``b_i``, and then in the cluster ``c_k``; else it is in
one of those nearby. So an answer about one item teaches about all of its component, and however
sure the model is, a component that was not compared with the others is in doubt.
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
# Log odds of being bound, of the item next to the mean of its component over the outermost.
_CORE = 6.0
# After so many items of a component one more is expected to tell half of what it seems to.
_HEARD_OUT = 5.0
# Three draws count as much as one of what the fit itself says: where it has not heard what answers
# say to the draws, there is something left to tell.
_FIT = 3
# Clusters and components with fewer expected items are left out.
_IN_USE = 1e-6


@dataclass
class Beliefs:
    """Probabilities of clusters, and what an answer about one item teaches about others.

    Components are in falling order of their clusters' sizes, and within these of their own; a
    cluster has the name of its first component.

    Attributes
    ----------
    probabilities
        ``b_i m_k + (1 - b_i) m_nearby`` with ``m_kc = p(c_k = c)``: of clusters, for every item.
    entropies
        Theirs.
    heard
        Probability that an item was asked about, and truly answered.
    wanted
        1 for items whose clusters are to be known, 0 for others; less for those of which the batch
        tells already.
    components
        Which component every item looks like; without columns where there are none.
    bound
        ``b_i``.
    together
        Probability that two components are one cluster.
    information
        What the cluster of one component tells of that of another, in nats.
    roots
        Draws of the clusters of all components.
    unasked
        Items of every component that nobody was asked about, and whose clusters are wanted.
    untold
        The same, less what those that were asked about have told of them.
    """

    probabilities: Float[np.ndarray, "item cluster"]
    entropies: Float[np.ndarray, " item"]
    heard: Float[np.ndarray, " item"]
    wanted: Float[np.ndarray, " item"]
    components: Float[np.ndarray, "item component"]
    bound: Float[np.ndarray, " item"]
    together: Float[np.ndarray, "component component"]
    information: Float[np.ndarray, "component component"]
    roots: Int[np.ndarray, "draw component"]
    unasked: Float[np.ndarray, " component"]
    untold: Float[np.ndarray, " component"]

    @classmethod
    def of(
        cls,
        result: FittedModel,
        heard: Float[np.ndarray, " item"],
        wanted: Float[np.ndarray, " item"],
        channels: Float[np.ndarray, "worker truth label"],
        generator: np.random.Generator,
    ) -> Beliefs:
        """Of a fit.

        ``heard`` says how well the answers so far can be trusted, ``channels`` has
        ``p(answer about a pair | different)`` and ``p(... | same)`` of the fit's workers.
        """
        by_features = result.component_probabilities_by_features
        if by_features is None:
            return cls._without_components(result, heard, wanted)
        alone = np.asarray(by_features, dtype=np.float64)
        after = np.asarray(result.component_probabilities, dtype=np.float64)
        owners = np.eye(alone.shape[1]) if result.owners is None else result.owners
        order = _order(alone, after, owners)
        owners = owners[order]
        alone, after = alone[:, order], after[:, order]
        weight = heard[:, None]
        together = components_together(torch.from_numpy(owners)).numpy()
        stayed = (after @ together * alone).sum(1, keepdims=True)
        kept, left = (
            count + (weight * agreed * alone).sum(0)
            for count, agreed in zip(_BOUND, (stayed, 1 - stayed), strict=True)
        )
        purity = kept / (kept + left)
        unheard = expit(logit(alone @ purity) + _CORE * _depth(result, alone, order))
        near = _near_larger(result, order)
        if result.data.class_labels is None:
            gain = component_gain(result.data, alone, unheard, channels)
            gain += expert_gain(result.data, alone, unheard)
            roots = draw_roots(gain, near, owners.argmax(1), generator)
            if result.owners is not None:
                roots = np.vstack([roots, *[_first_of(owners.argmax(1))] * (len(roots) // _FIT)])
        else:  # classes have names, and nobody doubts that they are different
            roots = np.arange(len(order))[None]
        clusters = np.stack([(roots == name).mean(0) for name in range(len(order))], 1)
        components = weight * after + (1 - weight) * alone
        bound = heard + (1 - heard) * unheard
        probabilities = bound[:, None] * (components @ clusters)
        probabilities += (1 - bound)[:, None] * (alone @ near @ clusters)
        probabilities = probabilities / probabilities.sum(1, keepdims=True)
        # What n answers have not told of a component, one more is the less likely to.
        discount = 1 + (weight * alone).sum(0) / _HEARD_OUT
        unasked = (wanted * (1 - heard)) @ (alone * purity)
        return cls(
            probabilities,
            entropy(probabilities),
            heard,
            wanted,
            components,
            bound,
            np.stack([(roots == one[:, None]).mean(0) for one in roots.T]),
            mutual_information(roots),
            roots,
            unasked,
            unasked / discount,
        )

    @classmethod
    def _without_components(
        cls,
        result: FittedModel,
        heard: Float[np.ndarray, " item"],
        wanted: Float[np.ndarray, " item"],
    ) -> Beliefs:
        """Of a fit without features: an answer teaches about its own items alone."""
        found = np.asarray(result.probabilities, dtype=np.float64)
        used = found.sum(0) > _IN_USE
        found = found[:, used] / found[:, used].sum(1, keepdims=True)
        return cls(
            found,
            entropy(found),
            heard,
            wanted,
            components=np.empty((len(found), 0)),
            bound=np.zeros(len(found)),
            together=np.empty((0, 0)),
            information=np.empty((0, 0)),
            roots=np.empty((1, 0), dtype=int),
            unasked=np.empty(0),
            untold=np.empty(0),
        )

    @property
    def taught(self) -> Float[np.ndarray, " component"]:
        """What the cluster of each component tells of all items, in nats."""
        return self.information @ self.untold

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
        """What there is to tell of these items alone, in nats, as far as they are wanted."""
        return self.wanted[items] * self.entropies[items]

    def others(self, items: Int[np.ndarray, " question"]) -> Float[np.ndarray, " question"]:
        """What knowing the cluster of each tells of all others of its component, in nats."""
        return self.bound[items] * (self.components[items] ** 2 @ self.taught)

    def expect(self, item: int, share: float) -> None:
        """Such a share of what there is to tell of a component is about to be told."""
        told = share * self.bound[item] * self.components[item] @ self.information
        self.untold = self.untold * (1 - told / np.maximum(self.information.diagonal(), 1e-12))

    def expect_placed(
        self,
        items: Int[np.ndarray, " placed"],
        told: Float[np.ndarray, " placed"],
        reliability: float,
    ) -> Beliefs:
        """Once these are on a page of the batch, which tells such a share of each, by such a r."""
        heard, wanted = self.heard.copy(), self.wanted.copy()
        heard[items] = 1 - (1 - heard[items]) * (1 - reliability)
        wanted[items] *= 1 - told
        return replace(self, heard=heard, wanted=wanted)

    def surest(self, per_cluster: int) -> Int[np.ndarray, " item"]:
        """The items whose clusters are best known, some of every cluster."""
        number = min(per_cluster, len(self.probabilities))
        return np.unique(np.argpartition(-self.probabilities, number - 1, axis=0)[:number])

    def is_known(self, items: Int[np.ndarray, " question"]) -> Bool[np.ndarray, " question"]:
        """Items that were asked about, and whose cluster is as good as certain."""
        return (self.heard[items] > 0.5) & (self.probabilities[items].max(1) > 0.9)


def _order(
    alone: Float[np.ndarray, "item component"],
    after: Float[np.ndarray, "item component"],
    owners: Float[np.ndarray, "component cluster"],
) -> Int[np.ndarray, " used"]:
    """Components in use, from the first of the largest cluster on."""
    sizes = after.sum(0)
    order = np.lexsort([-sizes, -(owners @ (owners.T @ sizes)).round(9)])
    return order[(alone.sum(0) + sizes)[order] > _IN_USE]


def _first_of(groups: Int[np.ndarray, " used"]) -> Int[np.ndarray, " used"]:
    """The first component of every one's group."""
    _, first, place = np.unique(groups, return_index=True, return_inverse=True)
    return first[place]


def _near_larger(
    result: FittedModel, order: Int[np.ndarray, " used"]
) -> Float[np.ndarray, "used used"]:
    """How near the larger components are to each, as shares.

    Of two that may be one it is the smaller's items that would get another name.
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
    """From 1/2 for the item next to the mean of its component to -1/2 for the outermost."""
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
