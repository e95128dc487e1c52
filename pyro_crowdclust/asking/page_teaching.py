"""What a sorted page teaches of components: the clusters of all, by whom each item goes with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from pyro_crowdclust.asking.beliefs import Beliefs
from pyro_crowdclust.asking.drawn_clusters import DrawnClusters
from pyro_crowdclust.asking.information import entropy
from pyro_crowdclust.families import SMALLEST_PROBABILITY

# Components of which a page is chosen: those of whose clusters there is most to tell.
_MOST_COMPONENTS = 40
_FAINT = 1e-9


class ItemsTeaching:
    """What items teach of components if they are put on a page, as they speak for these.

    An item speaks for the component that it looks like, as far as it is bound to it, and nobody was
    asked about it: an answer that was heard would only be heard again. Of the information that its
    component's best item brings it has the square of the share in ``s_i``.

    Parameters
    ----------
    beliefs
        Of all items.
    items
        Those that may be put on the page.
    reliability
        r of the worker.
    told
        What pages told of every component's cluster, in nats; this one adds to it.
    """

    def __init__(
        self,
        beliefs: Beliefs,
        items: Int[np.ndarray, " item"],
        reliability: float,
        told: Float[np.ndarray, " component"],
    ) -> None:
        self._told, self._among = told, _promising(beliefs, told)
        if not len(self._among):
            return
        alike = beliefs.components[items][:, self._among]
        speaks = beliefs.bound[items] * alike.max(1)
        self._component, self._is_bound = alike.argmax(1), speaks > 0.5
        self._strength = reliability * (1 - beliefs.heard[items]) * speaks
        self._page = PageTeaching(
            beliefs.roots[:, self._among],
            beliefs.information[np.ix_(self._among, self._among)],
            beliefs.unasked[self._among],
            told[self._among],
        )

    def values(self, eligible: Bool[np.ndarray, " item"]) -> Float[np.ndarray, " item"]:
        """What each tells of others, in nats, beyond what is told; of the eligible ones."""
        if not len(self._among):
            return np.zeros(len(eligible))
        best = np.full(len(self._among), _FAINT)
        np.maximum.at(best, self._component[eligible], self._strength[eligible])
        share = np.minimum(self._strength / best[self._component], 1.0)
        return share**2 * self._page.values(best)[self._component]

    def place(self, item: int) -> None:
        """Put an item on the page; one that is not bound tells nothing of its component."""
        if len(self._among) and self._is_bound[item]:
            self._page.place(int(self._component[item]), float(self._strength[item]))
            self._told[self._among] = self._page.told


def representatives(beliefs: Beliefs, number: int) -> Int[np.ndarray, " item"]:
    """So many items of every component that speak for it."""
    speaks = (beliefs.bound * (1 - beliefs.heard))[:, None] * beliefs.components
    number = min(number, len(speaks))
    return np.unique(np.argpartition(-speaks, number - 1, axis=0)[:number])


def _promising(
    beliefs: Beliefs, told: Float[np.ndarray, " component"]
) -> Int[np.ndarray, " chosen"]:
    """Components that may, or may not, be one cluster with those of which much is left to tell."""
    own = np.maximum(beliefs.information.diagonal(), _FAINT)
    left = beliefs.unasked * np.maximum(1 - told / own, 0.0)
    together = np.clip(beliefs.together, 0.0, 1.0)
    doubt = entropy(np.stack([together, 1 - together], -1))
    score = doubt @ left + left * doubt.sum(1)
    return np.sort(np.argsort(-score, kind="stable")[:_MOST_COMPONENTS])


@dataclass
class PageTeaching:
    """What a page tells of the clusters of all components, beyond the pages before it.

    A sorted page shows of each item i with whom it goes: ``o_i`` is the first other item of the
    page, in the order in which they were chosen, that is in its cluster, or none. All of the page
    tells at least what the one of these tells that tells most,

        V = sum_m N_m max_i I(c_m; o_i) <= sum_m N_m I(c_m; o_1 .. o_n)

    with c_m by draws of the partition, N_m the unasked items of component m, and i over all pages
    of the batch. ``o_i`` is seen with probability ``s_i``, else one is seen that is drawn anew from
    ``p(o_i)``.

    Attributes
    ----------
    draws
        The clusters of all components, in so many draws.
    information
        What the cluster of one component tells of that of another, in nats.
    unasked
        N.
    told
        ``max_i I(c_m; o_i)`` so far.

    Examples
    --------
    >>> draws = np.array([[0, 0, 2], [0, 1, 2], [0, 2, 2], [0, 1, 2]] * 100)
    >>> information = np.diag([0.0, 1.04, 0.0])
    >>> teaching = PageTeaching(draws, information, np.array([9.0, 2.0, 5.0]), np.zeros(3))
    >>> teaching.place(1, 1.0)
    >>> teaching.values(np.ones(3)).round(2)  # beside one of the two that it may go with
    array([1.12, 0.  , 1.12])
    >>> teaching.place(0, 1.0)
    >>> teaching.values(np.ones(3)).round(2)  # and beside the other one
    array([0.  , 0.  , 0.95])
    """

    draws: Int[np.ndarray, "draw component"]
    information: Float[np.ndarray, "component component"]
    unasked: Float[np.ndarray, " component"]
    told: Float[np.ndarray, " component"]

    def __post_init__(self) -> None:
        self._drawn = DrawnClusters(self.draws)
        self._share = self._drawn.table.mean(0)
        self._placed: list[_Placed] = []
        # Draws in which an item of each component goes with none of the page, and for every one of
        # the page the share of draws in which it is the first that it goes with, by clusters.
        self._alone = np.ones(self.draws.T.shape, dtype=bool)
        self._goes_with: list[Float[np.ndarray, "component column"]] = []
        # What those on the page tell once an item of each component is there, too.
        self._beside = np.zeros(self.information.shape)

    def values(self, strength: Float[np.ndarray, " component"]) -> Float[np.ndarray, " component"]:
        """What an item of each tells beyond what is told, if its place is seen with this s.

        The first one is compared with nobody: what there is to tell by its cluster.
        """
        if self._placed:
            tells = np.maximum(self._of_itself(strength), self._beside)
        else:
            tells = strength[:, None] ** 2 * self.information
        return np.maximum(tells - self.told, 0.0) @ self.unasked

    def place(self, component: int, strength: float) -> None:
        """Put an item of a component on the page."""
        tells = self._of_itself(np.array([strength]), [component])[0]
        self.told = np.maximum(self.told, np.maximum(tells, self._beside[component]))
        same = self._same(component)
        for one in self._placed:
            one.goes_with.append(self._joint(one.alone & same[one.component]))
            one.alone = one.alone & ~same[one.component]
        goes_with = [joint[component] for joint in self._goes_with]
        self._placed.append(_Placed(component, strength, self._alone[component], goes_with))
        self._goes_with.append(self._joint(self._alone & same))
        self._alone = self._alone & ~same
        self._beside = self._of_the_placed()

    def _of_itself(
        self, strength: Float[np.ndarray, " one"], those: slice | list[int] = slice(None)
    ) -> Float[np.ndarray, "one component"]:
        """``I(c_m; o_k)`` of an item of every one of those components k, put on the page."""
        parts = [joint[those] for joint in self._goes_with]
        return self._tells([*parts, self._joint(self._alone[those])], strength[:, None])

    def _of_the_placed(self) -> Float[np.ndarray, "component component"]:
        """The largest ``I(c_m; o_i)`` of those on the page, once an item of k is there, too."""
        best = np.zeros(self.information.shape)
        for one in self._placed:
            joint = self._joint(one.alone & self._same(one.component))
            parts = [*one.goes_with, joint, self._joint(one.alone) - joint]
            best = np.maximum(best, self._tells(parts, one.strength))
        return best

    def _same(self, component: int) -> Bool[np.ndarray, "component draw"]:
        """Draws in which each is one cluster with this one."""
        return np.asarray(self.draws[:, component] == self.draws.T)

    def _joint(self, so: Bool[np.ndarray, "*of draw"]) -> Float[np.ndarray, "*of column"]:
        """Share of draws in which it is so, and m is of the column's cluster."""
        return so.astype(np.float64) @ self._drawn.table / len(self.draws)

    def _tells(
        self,
        parts: list[Float[np.ndarray, "*of column"]],
        strength: float | Float[np.ndarray, "*of 1"],
    ) -> Float[np.ndarray, "*of component"]:
        """``I(c_m; o)``, less what so many draws tell of what is unrelated (Miller 1955).

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
        Of the item.
    alone
        Draws in which it goes with none of the others.
    goes_with
        For all but the last of those, the share of draws in which it goes with them, by clusters.
    """

    component: int
    strength: float
    alone: Bool[np.ndarray, " draw"]
    goes_with: list[Float[np.ndarray, " column"]]
