"""Pages of items for workers to sort into groups; items of a page are chosen greedily."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from pyro_crowdclust.asking.criteria import Criterion, Prospects, Random
from pyro_crowdclust.asking.information import placement_information
from pyro_crowdclust.asking.page_teaching import ItemsTeaching, representatives
from pyro_crowdclust.asking.situation import TYPICAL_RELIABILITY, Situation
from pyro_crowdclust.asking.whom import Whom, drawn
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

    def compose(self, situation: Situation, count: int) -> pd.DataFrame:
        """``count`` pages, one row per item: ``page, item, worker, gain``."""
        crowd = situation.crowd
        if crowd.grades is not None:
            raise ValueError(
                "the workers of this fit grade pairs, and a page of groups has no grades: ask for "
                "Pairs()"
            )
        pool = np.union1d(situation.pool(), representatives(situation.beliefs, count))
        gained = np.zeros(situation.beliefs.components.shape[1])
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
        columns = ["page", "item", "worker", "gain"]
        return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=columns)

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
        probabilities, entropies = beliefs.probabilities[pool], beliefs.entropies[pool]
        reliability, counts, measured = TYPICAL_RELIABILITY, (1.0, 1.0), 0
        if worker is not None:
            rates = crowd.rates[worker]
            reliability = float(crowd.reliability(rates, probabilities.shape[1]))
            counts = crowd.pseudo_counts(worker)
            measured = self.size // 2 if crowd.is_new[worker] else 0
        known = beliefs.is_known(pool)
        table = _Table(probabilities, beliefs.components[pool], beliefs.bound[pool])
        teaching = ItemsTeaching(beliefs, pool, reliability, gained)
        own = beliefs.own(pool)
        eligible = eligible.copy()
        gains: list[float] = []
        left = np.ones(len(pool))
        while len(gains) < self.size and eligible.any():
            outcomes, placed = table.outcomes(), table.places
            # The first item is compared with no other; it is chosen by its entropy.
            joins, share, gain = outcomes[:, :-1], np.zeros(len(pool)), own
            repeated = np.zeros(len(pool))
            if placed:
                involved = joins @ entropies[placed] + entropies + _TINY
                information = placement_information(outcomes, reliability)
                share = information / involved
                gain = information * ((joins @ own[placed] + own) / involved)
                repeated = share * (joins @ ((1 - left) * own)[placed])
            gain = gain + teaching.values(eligible)
            prospects = Prospects(gain, outcomes if placed else probabilities, counts)
            criterion: Criterion = situation.criterion
            candidates = eligible
            if len(gains) < measured and (known & eligible).any():
                criterion, candidates = Random(), known & eligible
            scores = criterion.scores(prospects, situation.generator)
            best = situation.best(scores, candidates)
            assert best is not None  # since at least one item is eligible
            # Information that repeats that of earlier placements is used for the choice, since
            # these may be wrong, but it is no gain.
            gains.append(float((gain - repeated)[best]) if placed else 0.0)
            left[placed] *= np.maximum(1 - share[best] * joins[best], 0.0)
            left[best] *= max(1 - float(share[best]), 0.0)
            eligible[best] = False
            if worker is not None:  # exclude pairs that the worker was asked about before
                keys = situation.asked.pair_keys(np.full(len(pool), pool[best]), pool)
                eligible &= ~situation.asked.pairs(np.full(len(pool), crowd.codes[worker]), keys)
            table.place(best)
            teaching.place(best)
        return _Page(table.places, gains, 1 - left[table.places], reliability)


class _WhomToSort:
    """The worker whose placements of typical items have the largest score for their price."""

    def __init__(self, situation: Situation, count: int) -> None:
        crowd, generator = situation.crowd, situation.generator
        num_clusters = situation.beliefs.probabilities.shape[1]
        reliability = crowd.reliability(drawn(lambda: crowd.drawn_rates(generator)), num_clusters)
        self._typical = np.full((1, 2), 0.5)
        information = placement_information(self._typical, reliability.reshape(-1, 1))
        self._information = information.reshape(reliability.shape)
        self._whom = Whom(situation, count)

    def best(self, able: Bool[np.ndarray, " worker"]) -> int | None:
        """The worker to ask; None if nobody is able."""
        return self._whom.best(self._information, self._typical, able)


@dataclass(frozen=True)
class _Page:
    """Items of a page, in the order in which they were chosen.

    Attributes
    ----------
    places
        Positions in the pool.
    gains
        Additional information of each item, in nats.
    shares
        Information of the page about each item, as a share of its entropy.
    reliability
        r of the worker.
    """

    places: list[int]
    gains: list[float]
    shares: Float[np.ndarray, " place"]
    reliability: float


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
