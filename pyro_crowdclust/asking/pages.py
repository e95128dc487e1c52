"""Pages of items to sort into groups: n placements, chosen one after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from pyro_crowdclust.asking.criteria import WorkerInformation
from pyro_crowdclust.asking.information import placement_information
from pyro_crowdclust.asking.situation import TYPICAL_RELIABILITY, Situation

# Keeps what is known for certain from being divided by zero.
_TINY = 1e-3


@dataclass(frozen=True)
class Pages:
    """Pages of so many items, which a worker sorts into groups.

    Items of a page are compared with those that are on it before them. With ``l_j(c)`` the
    probability that item j is the first of cluster c on the page, item i joins the group of j with
    probability ``<q_i, l_j>`` and opens a new one with ``<q_i, prod_j (1 - q_j)>``. What the worker
    tells by placing it is the information about that outcome, ``placement_information``; the items
    of a page are taken greedily.

    Parameters
    ----------
    size
        Items on a page, at least 2.
    """

    size: int = 12

    def __post_init__(self) -> None:
        if self.size < 2:
            raise ValueError(f"size is {self.size}, but a page needs at least 2 items to compare")

    def compose(self, situation: Situation, count: int) -> pd.DataFrame:
        """So many pages, one row per item: ``page, item, worker, gain``."""
        crowd, rows = situation.crowd, []
        pool = situation.pool()
        free = np.ones(len(pool), dtype=bool)
        loads = crowd.loads.copy()
        for page in range(count):
            worker = self._worker(situation, loads)
            if worker is None and len(crowd.ids):
                break
            unasked = np.ones(len(pool), dtype=bool)
            if worker is not None:
                loads[worker] -= 1
                code = np.full(len(pool), crowd.codes[worker])
                unasked = ~situation.asked.items(code, pool)
            # Pages of a batch share items only where there are not enough.
            eligible = free & unasked
            if eligible.sum() < self.size:
                eligible = unasked
            if eligible.sum() < 2:
                break
            places, gains = self._page(situation, pool, eligible, worker)
            free[places] = False
            rows.append(
                pd.DataFrame(
                    {
                        "page": page,
                        "item": situation.item_ids[pool[places]],
                        "worker": None if worker is None else crowd.ids[worker],
                        "gain": gains,
                    }
                )
            )
        columns = ["page", "item", "worker", "gain"]
        return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=columns)

    def _worker(self, situation: Situation, loads: Float[np.ndarray, " worker"]) -> int | None:
        """Whose placements of typical items are worth most for their price."""
        crowd = situation.crowd
        if not len(crowd.ids):
            return None
        num_clusters = situation.beliefs.probabilities.shape[1]
        reliability = crowd.reliability(crowd.drawn, num_clusters)
        typical = np.full((1, 2), 0.5)
        worth = np.empty(len(crowd.ids))
        for worker in range(len(worth)):
            information = placement_information(typical, reliability[worker])
            prospects = situation.prospects(
                information, typical, np.ones(1), crowd.counts[worker, 0]
            )
            worth[worker] = situation.criterion.worth(prospects, situation.generator)[0]
        return situation.best(worth / crowd.prices, loads >= 1)

    def _page(
        self,
        situation: Situation,
        pool: Int[np.ndarray, " item"],
        eligible: Bool[np.ndarray, " item"],
        worker: int | None,
    ) -> tuple[list[int], list[float]]:
        """Places in the pool of the items of a page, and what each adds."""
        beliefs, crowd = situation.beliefs, situation.crowd
        probabilities, entropies = beliefs.probabilities[pool], beliefs.entropies[pool]
        reliability, counts, measured = TYPICAL_RELIABILITY, None, 0
        if worker is not None:
            rates = crowd.rates[worker]
            reliability = float(crowd.reliability(rates, probabilities.shape[1]))
            counts = crowd.counts[worker, 0]
            measured = self.size // 2 if crowd.is_new[worker] else 0
        known = beliefs.is_known(pool)
        unled = np.ones(probabilities.shape[1])
        groups = np.empty((len(pool), 0))
        eligible = eligible.copy()
        places: list[int] = []
        gains: list[float] = []
        while len(places) < self.size and eligible.any():
            outcomes = np.column_stack([groups, probabilities @ unled])
            # The first item is compared with nobody; it is one of which there is much to learn.
            told = outcomes if places else probabilities
            values = beliefs.values(pool)
            involved = groups @ entropies[places] + entropies + _TINY
            teaches = (groups @ values[places] + values + _TINY) / involved
            information = placement_information(told, reliability)
            prospects = situation.prospects(information, told, teaches, counts)
            criterion, candidates = situation.criterion, eligible
            if len(places) < measured and (known & eligible).any():
                criterion, candidates = WorkerInformation(), known & eligible
            worth = criterion.worth(prospects, situation.generator)
            best = situation.best(worth, candidates)
            assert best is not None  # as somebody is eligible
            gains.append(float(information[best] * teaches[best]) if places else 0.0)
            places.append(best)
            eligible[best] = False
            groups = np.column_stack([groups, probabilities @ (probabilities[best] * unled)])
            unled = unled * (1 - probabilities[best])
            beliefs.expect(int(pool[best]), reliability)
        return places, gains
