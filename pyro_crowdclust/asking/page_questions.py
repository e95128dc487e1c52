"""Pages of items for workers to sort into groups; items of a page are chosen greedily."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from pyro_crowdclust.asking.beliefs import Beliefs
from pyro_crowdclust.asking.criteria import Criterion, Prospects, Random
from pyro_crowdclust.asking.information import placement_information
from pyro_crowdclust.asking.page_teaching import ItemsTeaching, representatives
from pyro_crowdclust.asking.situation import TYPICAL_RELIABILITY, Situation
from pyro_crowdclust.asking.whom import Whom
from pyro_crowdclust.asking.worker_rates import drawn
from pyro_crowdclust.errors import check_whole

# Avoids division by zero for items with certain clusters.
_TINY = 1e-3


@dataclass(frozen=True)
class Pages:
    """Pages of ``size`` items, which a worker sorts into groups.

    An item of a page is compared with those that were put on it before. With ``l_j(c)`` the
    probability that item j is the first of cluster c on the page, item i joins the group of j with
    probability ``<q_i, l_j>`` and opens a new one with ``<q_i, prod_j (1 - q_j)>``. The information
    of its placement about this outcome is ``placement_information``; that of the page about
    components is in ``PageTeaching``. Items are chosen greedily.

    Parameters
    ----------
    size
        Items on a page, at least 2; fewer if the worker was asked about all other pairs.
    """

    size: int = 12

    columns: ClassVar = ("page", "item", "worker", "gain")
    answers: ClassVar = "placements"

    def __post_init__(self) -> None:
        check_whole("size", self.size)
        if self.size < 2:
            raise ValueError(f"size is {self.size}, but a page needs at least 2 items to compare")

    def compose(self, situation: Situation, count: int) -> tuple[pd.DataFrame, Beliefs]:
        """``count`` pages, one row per item: ``page, item, worker, gain``; and the beliefs."""
        crowd, before = situation.crowd, situation.beliefs
        pool = np.union1d(situation.pool(), representatives(before, count))
        gained = np.zeros(before.components.shape[1])
        free = np.ones(len(pool), dtype=bool)
        # Items that each worker may still place; None is a single worker without a name.
        unplaced: dict[int | None, Bool[np.ndarray, " item"]] = {}
        loads, rows = crowd.loads.copy(), list[pd.DataFrame]()
        whom = _WhomToSort(situation, count)
        while len(rows) < count:
            worker = whom.best(loads >= 1)
            if worker is None and len(crowd.ids):
                break
            if worker not in unplaced:
                code = np.full(len(pool), -1 if worker is None else crowd.codes[worker])
                unplaced[worker] = ~situation.asked.to_place(code, pool)
            # Pages of a batch share items only if there are not enough.
            eligible = free & unplaced[worker]
            if eligible.sum() < self.size:
                eligible = unplaced[worker]
            if eligible.sum() < 2:
                if worker is None:
                    break
                loads[worker] = 0  # others may have items left
                continue
            page = self._page(situation, pool, eligible, worker, gained)
            unplaced[worker][page.places] = False
            if len(page.places) < 2:  # the worker has compared this item with all others
                continue
            free[page.places] = False
            if worker is not None:
                loads[worker] -= 1
            beliefs = situation.beliefs.expect_placed(
                pool[page.places], page.shares, page.reliability
            )
            situation = replace(situation, beliefs=beliefs)
            who = None if worker is None else crowd.ids[worker]
            rows.append(
                pd.DataFrame(
                    {
                        "page": len(rows),
                        "item": situation.item_ids[pool[page.places]],
                        "worker": [who] * len(page.gains),  # an id may be a tuple
                        "gain": page.gains,
                    }
                )
            )
        if not rows:
            return pd.DataFrame(columns=[*self.columns]), before
        return pd.concat(rows, ignore_index=True), before

    def _page(
        self,
        situation: Situation,
        pool: Int[np.ndarray, " item"],
        eligible: Bool[np.ndarray, " item"],
        worker: int | None,
        gained: Float[np.ndarray, " component"],
    ) -> _Page:
        """A page of items of the pool, each chosen by its additional information."""
        beliefs, crowd = situation.beliefs, situation.crowd
        reliability, counts, measured = TYPICAL_RELIABILITY, (1.0, 1.0), 0
        if worker is not None:
            reliability = float(crowd.reliability(beliefs.probabilities.shape[1])[worker])
            counts = crowd.rates.pseudo_counts(worker)
            measured = self.size // 2 if crowd.is_new[worker] else 0
        page = _Page(beliefs, pool, reliability, gained)
        known, eligible = beliefs.is_known(pool), eligible.copy()
        while len(page.places) < self.size and eligible.any():
            gain, outcomes = page.gain(eligible)
            criterion: Criterion = situation.criterion
            candidates = eligible
            if len(page.places) < measured and (known & eligible).any():
                criterion, candidates = Random(), known & eligible
            scores = criterion.scores(Prospects(gain, outcomes, counts), situation.generator)
            best = situation.best(scores, candidates)
            assert best is not None  # since at least one item is eligible
            page.place(best)
            eligible[best] = False
            if worker is not None:  # exclude pairs that the worker was asked about before
                keys = situation.asked.pair_keys(np.full(len(pool), pool[best]), pool)
                eligible &= ~situation.asked.pairs(np.full(len(pool), crowd.codes[worker]), keys)
        return page


class _WhomToSort:
    """The worker whose placements of typical items have the largest score for their price."""

    def __init__(self, situation: Situation, count: int) -> None:
        rates, generator = situation.crowd.rates, situation.generator
        num_clusters = situation.beliefs.probabilities.shape[1]
        reliability = drawn(lambda: rates.reliability(rates.draw(generator), num_clusters))
        self._typical = np.full((1, 2), 0.5)
        information = placement_information(self._typical, reliability.reshape(-1, 1))
        self._information = information.reshape(reliability.shape)
        self._whom = Whom(situation, count)

    def best(self, able: Bool[np.ndarray, " worker"]) -> int | None:
        """The worker to ask; None if nobody is able."""
        return self._whom.best(self._information, self._typical, able)


class _Page:
    """A page and the information of its placements, as items are put on it one after the other.

    Parameters
    ----------
    beliefs
        Beliefs about all items.
    pool
        Items that may be put on the page.
    reliability
        r of the worker.
    gained
        As for ``ItemsTeaching``.

    Attributes
    ----------
    gains
        Additional information of each item, in nats.
    reliability
        r of the worker.
    """

    def __init__(
        self,
        beliefs: Beliefs,
        pool: Int[np.ndarray, " item"],
        reliability: float,
        gained: Float[np.ndarray, " component"],
    ) -> None:
        self._probabilities, self._entropies = beliefs.probabilities[pool], beliefs.entropies[pool]
        self._own = beliefs.own(pool)
        self._table = _Table(self._probabilities, beliefs.components[pool], beliefs.bound[pool])
        self._teaching = ItemsTeaching(beliefs, pool, reliability, gained)
        # Share of the entropy of every item that the page leaves.
        self._left = np.ones(len(pool))
        self.reliability = reliability
        self.gains: list[float] = []

    @property
    def places(self) -> list[int]:
        """Positions in the pool, in the order in which the items were put on the page."""
        return self._table.places

    @property
    def shares(self) -> Float[np.ndarray, " place"]:
        """Information of the page about each of its items, as a share of the item's entropy."""
        return 1 - self._left[self.places]

    def gain(
        self, eligible: Bool[np.ndarray, " item"]
    ) -> tuple[Float[np.ndarray, " item"], Float[np.ndarray, "item outcome"]]:
        """The information of every item that may be next, and the probabilities of its outcomes."""
        outcomes, placed = self._table.outcomes(), self.places
        self._joins, self._share = outcomes[:, :-1], np.zeros(len(outcomes))
        # The first item is compared with no other; it is chosen by its entropy.
        gain, repeated = self._own, np.zeros(len(outcomes))
        if placed:
            involved = self._joins @ self._entropies[placed] + self._entropies + _TINY
            information = placement_information(outcomes, self.reliability)
            self._share = information / involved
            gain = information * ((self._joins @ self._own[placed] + self._own) / involved)
            repeated = self._share * (self._joins @ ((1 - self._left) * self._own)[placed])
        gain = gain + self._teaching.values(eligible)
        self._new = gain - repeated
        return gain, outcomes if placed else self._probabilities

    def place(self, item: int) -> None:
        """Put an item on the page, by what ``gain`` found last.

        Information that repeats that of earlier placements is used for the choice, since these may
        be wrong, but it is no gain.
        """
        self.gains.append(float(self._new[item]) if self.places else 0.0)
        self._left[self.places] *= np.maximum(1 - self._share[item] * self._joins[item], 0.0)
        self._left[item] *= max(1 - float(self._share[item]), 0.0)
        self._table.place(item)
        self._teaching.place(item)


class _Table:
    """The items on a page, and the probabilities that other items of the pool would go with them.

    Parameters
    ----------
    probabilities
        q of the clusters of every item.
    components
        Probabilities of the components of every item.
    bound
        Probability that the item is in its component's cluster.
    """

    def __init__(
        self,
        probabilities: Float[np.ndarray, "item cluster"],
        components: Float[np.ndarray, "item component"],
        bound: Float[np.ndarray, " item"],
    ) -> None:
        self._probabilities, self._components, self._bound = probabilities, components, bound
        self.places: list[int] = []
        # Probability that no placed item is in each cluster, and that each is the first in it.
        self._unled = np.ones(probabilities.shape[1])
        self._leads = np.empty((0, probabilities.shape[1]))
        # Probability that each placed item is the first of each component.
        self._firsts = np.empty((0, components.shape[1]))

    def outcomes(self) -> Float[np.ndarray, "item group"]:
        """Probability of going with every placed item; the last column is that of a new group.

        ``<q_i, l_j>`` and ``<q_i, unled>``; an item that is bound to the component of placed items
        goes with the first of these, whatever their cluster is.
        """
        fresh = self._probabilities @ np.vstack([self._leads, self._unled]).T
        same = (self._components @ self._firsts.T) * self._bound[:, None] * self._bound[self.places]
        fresh *= 1 - same.sum(1, keepdims=True)
        fresh[:, :-1] += same
        return fresh

    def place(self, item: int) -> None:
        """Put an item on the page."""
        q = self._probabilities[item]
        first = self._components[item] * (1 - self._firsts.sum(0))
        self._firsts = np.vstack([self._firsts, first])
        self.places.append(item)
        self._leads = np.vstack([self._leads, q * self._unled])
        self._unled = self._unled * (1 - q)
