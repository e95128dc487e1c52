"""Information of a sorted page about the clusters of components, from which items go together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from pyro_crowdclust.asking.beliefs import Beliefs
from pyro_crowdclust.asking.drawn_clusters import DrawnClusters
from pyro_crowdclust.asking.information import entropy
from pyro_crowdclust.families import SMALLEST_PROBABILITY

# A page is chosen from this many components, those with the most uncertain clusters.
_MAX_COMPONENTS = 40
_FAINT = 1e-9


class ItemsTeaching:
    """Information about components if items, as representatives of these, are put on a page.

    An item represents its most probable component, as far as it is bound to it and was not asked
    about before: otherwise the answer would repeat an earlier one. The strength ``s_i`` is the
    probability that its placement shows the component's cluster. An item has the information of the
    strongest item of its component, times the squared ratio of their strengths.

    Parameters
    ----------
    beliefs
        Beliefs about all items.
    items
        Items that may be put on the page.
    reliability
        r of the worker.
    gained
        Information about every component's cluster from earlier pages of the batch, in nats; it is
        updated in place.
    """

    def __init__(
        self,
        beliefs: Beliefs,
        items: Int[np.ndarray, " item"],
        reliability: float,
        gained: Float[np.ndarray, " component"],
    ) -> None:
        self._gained, self._among = gained, _promising(beliefs, gained)
        if not len(self._among):
            return
        shares = beliefs.components[items][:, self._among]
        represents = beliefs.bound[items] * shares.max(1)
        self._component, self._is_bound = shares.argmax(1), represents > 0.5
        self._strength = reliability * (1 - beliefs.answered[items]) * represents
        self._page = PageTeaching(
            beliefs.roots[:, self._among],
            beliefs.information[np.ix_(self._among, self._among)],
            beliefs.unasked[self._among],
            gained[self._among],
        )

    def values(self, eligible: Bool[np.ndarray, " item"]) -> Float[np.ndarray, " item"]:
        """Additional information of each item about others, in nats, if eligible items count."""
        if not len(self._among):
            return np.zeros(len(eligible))
        best = np.full(len(self._among), _FAINT)
        np.maximum.at(best, self._component[eligible], self._strength[eligible])
        share = np.minimum(self._strength / best[self._component], 1.0)
        return share**2 * self._page.values(best)[self._component]

    def place(self, item: int) -> None:
        """Put an item on the page; without information if it is not bound to its component."""
        if len(self._among) and self._is_bound[item]:
            self._page.place(int(self._component[item]), float(self._strength[item]))
            self._gained[self._among] = self._page.gained


def representatives(beliefs: Beliefs, number: int) -> Int[np.ndarray, " item"]:
    """The ``number`` items of every component that represent it best."""
    represents = (beliefs.bound * (1 - beliefs.answered))[:, None] * beliefs.components
    number = min(number, len(represents))
    return np.unique(np.argpartition(-represents, number - 1, axis=0)[:number])


def _promising(
    beliefs: Beliefs, gained: Float[np.ndarray, " component"]
) -> Int[np.ndarray, " chosen"]:
    """Components whose clusters are uncertain, with many unasked items in them or in others."""
    own = np.maximum(beliefs.information.diagonal(), _FAINT)
    left = beliefs.unasked * np.maximum(1 - gained / own, 0.0)
    together = np.clip(beliefs.together, 0.0, 1.0)
    doubt = entropy(np.stack([together, 1 - together], -1))
    score = doubt @ left + left * doubt.sum(1)
    return np.sort(np.argsort(-score, kind="stable")[:_MAX_COMPONENTS])


@dataclass
class PageTeaching:
    """Information of a page about the clusters of all components, beyond earlier pages.

    A sorted page shows which items each item i goes with: ``o_i`` is the first other item of the
    page, in the order in which they were chosen, that is in its cluster, or none. The information
    of the whole page is at least that of the most informative ``o_i``,

        V = sum_m N_m max_i I(c_m; o_i) <= sum_m N_m I(c_m; o_1 .. o_n)

    with c_m from draws of the partition, N_m the unasked items of component m, and i over all pages
    of the batch. ``o_i`` is observed with probability ``s_i``; otherwise a new draw from ``p(o_i)``
    is observed.

    Attributes
    ----------
    draws
        The clusters of all components in every draw.
    information
        Mutual information of the clusters of two components, in nats.
    unasked
        N_m.
    gained
        ``max_i I(c_m; o_i)`` so far.

    Examples
    --------
    >>> draws = np.array([[0, 0, 2], [0, 1, 2], [0, 2, 2], [0, 1, 2]] * 100)
    >>> information = np.diag([0.0, 1.04, 0.0])
    >>> teaching = PageTeaching(draws, information, np.array([9.0, 2.0, 5.0]), np.zeros(3))
    >>> teaching.place(1, 1.0)
    >>> teaching.values(np.ones(3)).round(2)  # compared with one of the two that it may go with
    array([1.12, 0.  , 1.12])
    >>> teaching.place(0, 1.0)
    >>> teaching.values(np.ones(3)).round(2)  # and with the other one
    array([0.  , 0.  , 0.95])
    """

    draws: Int[np.ndarray, "draw component"]
    information: Float[np.ndarray, "component component"]
    unasked: Float[np.ndarray, " component"]
    gained: Float[np.ndarray, " component"]

    def __post_init__(self) -> None:
        self._drawn = DrawnClusters(self.draws)
        self._share = self._drawn.table.mean(0)
        self._placed: list[_Placed] = []
        # Draws in which an item of each component goes with no item of the page; and, for every
        # item of the page, shares of draws in which it is the first one that an item of each
        # component goes with, by clusters.
        self._alone = np.ones(self.draws.T.shape, dtype=bool)
        self._goes_with: list[Float[np.ndarray, "component column"]] = []
        # Information of the items on the page if an item of each component is added.
        self._beside = np.zeros(self.information.shape)

    def values(self, strength: Float[np.ndarray, " component"]) -> Float[np.ndarray, " component"]:
        """Additional information of an item of each component with these strengths s.

        The first item is compared with no other: its value is the information in its cluster.
        """
        if self._placed:
            found = np.maximum(self._information_of_new(strength), self._beside)
        else:
            found = strength[:, None] ** 2 * self.information
        return np.maximum(found - self.gained, 0.0) @ self.unasked

    def place(self, component: int, strength: float) -> None:
        """Put an item of a component on the page."""
        found = self._information_of_new(np.array([strength]), [component])[0]
        self.gained = np.maximum(self.gained, np.maximum(found, self._beside[component]))
        same = self._same(component)
        for one in self._placed:
            one.goes_with.append(self._joint(one.alone & same[one.component]))
            one.alone = one.alone & ~same[one.component]
        goes_with = [joint[component] for joint in self._goes_with]
        self._placed.append(_Placed(component, strength, self._alone[component], goes_with))
        self._goes_with.append(self._joint(self._alone & same))
        self._alone = self._alone & ~same
        self._beside = self._information_of_placed()

    def _information_of_new(
        self, strength: Float[np.ndarray, " one"], those: slice | list[int] = slice(None)
    ) -> Float[np.ndarray, "one component"]:
        """``I(c_m; o_k)`` of a new item on the page, of each of those components k."""
        parts = [joint[those] for joint in self._goes_with]
        return self._information([*parts, self._joint(self._alone[those])], strength[:, None])

    def _information_of_placed(self) -> Float[np.ndarray, "component component"]:
        """The largest ``I(c_m; o_i)`` of items on the page if an item of component k is added."""
        best = np.zeros(self.information.shape)
        for one in self._placed:
            joint = self._joint(one.alone & self._same(one.component))
            parts = [*one.goes_with, joint, self._joint(one.alone) - joint]
            best = np.maximum(best, self._information(parts, one.strength))
        return best

    def _same(self, component: int) -> Bool[np.ndarray, "component draw"]:
        """Draws in which each component is one cluster with this one."""
        return np.asarray(self.draws[:, component] == self.draws.T)

    def _joint(self, event: Bool[np.ndarray, "*of draw"]) -> Float[np.ndarray, "*of column"]:
        """Share of draws with the event in which component m has the cluster of the column."""
        return event.astype(np.float64) @ self._drawn.table / len(self.draws)

    def _information(
        self,
        parts: list[Float[np.ndarray, "*of column"]],
        strength: float | Float[np.ndarray, "*of 1"],
    ) -> Float[np.ndarray, "*of component"]:
        """``I(c_m; o)`` from draws, corrected for bias (Miller 1955).

        ``sum_oc p(o) p(c) t log t`` with ``t = s p(o, c) / p(o) p(c) + 1 - s``, a part for every o.
        """
        terms, seen = np.zeros_like(self._share), np.zeros(1)
        for joint in parts:
            mass = joint[..., : self._drawn.numbers[0]].sum(-1, keepdims=True)
            apart = mass * self._share
            ratio = strength * joint / np.maximum(apart, SMALLEST_PROBABILITY) + (1 - strength)
            terms = terms + apart * ratio * np.log(np.maximum(ratio, SMALLEST_PROBABILITY))
            seen = seen + (mass > 0)
        chance = strength**2 * (seen - 1) * (self._drawn.numbers - 1) / (2 * len(self.draws))
        return self._drawn.sums(terms) - chance


@dataclass
class _Placed:
    """An item on the page.

    Attributes
    ----------
    component, strength
        Component and strength s of the item.
    alone
        Draws in which it goes with no other item.
    goes_with
        For all other items except the last, the share of draws in which it goes with them, by
        clusters.
    """

    component: int
    strength: float
    alone: Bool[np.ndarray, " draw"]
    goes_with: list[Float[np.ndarray, " column"]]
