"""Questions about pairs: whether two items are the same."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from pyro_crowdclust.asking.beliefs import Beliefs
from pyro_crowdclust.asking.choices import CandidateQuestions, choose, information_share
from pyro_crowdclust.asking.criteria import Random, SupportsDrawPairs
from pyro_crowdclust.asking.crowd import allowed_workers
from pyro_crowdclust.asking.listed_pairs import doubted
from pyro_crowdclust.asking.situation import TYPICAL_RELIABILITY, Situation, check_among
from pyro_crowdclust.asking.teaching import ItemTeaching, PairTeaching, Teaching
from pyro_crowdclust.data.tables import item_positions, read_table, reject_self_pairs

# Candidate pairs are made for at least this many items, each paired with one of the most certain
# items of its most probable clusters.
_MIN_SEEDS = 500
_CLUSTERS_PER_ITEM = 3
# Number of most certain items of a cluster that others are paired with.
_SUREST = 20
# Number of core items of a component, and of other components that it is compared with.
_CORES = 5
_MAX_OTHERS = 100
# If too few candidate pairs can be asked, all pairs are listed, up to this number; if there are
# more, pairs are drawn, with the number of draws doubled every time.
_MAX_LISTED = 100_000
_MAX_DOUBLINGS = 6


@dataclass(frozen=True)
class Pairs:
    """Pairs of items, for workers to answer whether they are the same.

    ``I(L; z_i, z_j) = I(L; s)``, since an answer only depends on whether the two are the same,
    which has probability ``s = <q_i, q_j>``. If workers grade, L is one of the grades or "can't
    tell". Pairs whose answer follows from known labels or links are left out.

    Parameters
    ----------
    among
        Only these pairs may be asked: a table with the columns ``left`` and ``right``, and with
        ``worker`` if only some workers may be asked about each. Default: uncertain items, each
        paired with certain items of its most probable clusters, and core items of components paired
        with those of other components. A criterion with ``draw_pairs`` (``SupportsDrawPairs``)
        draws the pairs itself; ``Random()`` draws any two items.
    """

    among: pd.DataFrame | None = None

    columns: ClassVar = ("left", "right", "worker", "gain")
    answers: ClassVar = "pairs"

    def compose(self, situation: Situation, count: int) -> tuple[pd.DataFrame, Beliefs]:
        """``count`` pairs, one row each: ``left, right, worker, gain``; and the beliefs."""
        items, allowed = self._askable(situation, count)
        beliefs, crowd, asked = situation.beliefs, situation.crowd, situation.asked
        same = beliefs.same(*items.T)
        if self.among is not None and not beliefs.components.shape[1]:
            beliefs, same = doubted(beliefs, asked, items)
            situation = replace(situation, beliefs=beliefs)
        num_clusters = beliefs.probabilities.shape[1]
        right = (1 + TYPICAL_RELIABILITY) / 2
        typical = np.array([[right, 1 - right], [1 - right, right]])
        if len(crowd.ids):
            typical = crowd.pair_channels(num_clusters).mean(0)
        keys, outcomes = asked.pair_keys(*items.T), np.stack([1 - same, same], 1)
        rates = crowd.rates
        questions = CandidateQuestions(
            items,
            outcomes,
            lambda: rates.pair_channels(rates.draw(situation.generator), num_clusters),
            information_share(beliefs, items, outcomes, typical),
            lambda codes, question: asked.pairs(codes, np.full(len(codes), keys[question])),
            _teaching(beliefs, items, same, typical),
            allowed,
        )
        chosen = choose(situation, questions, count)
        ends = items[[one.question for one in chosen]]
        frame = pd.DataFrame(
            {
                "left": situation.item_ids[ends[:, 0]],
                "right": situation.item_ids[ends[:, 1]],
                "worker": crowd.names([one.worker for one in chosen]),
                "gain": [one.gain for one in chosen],
            }
        )
        return frame, beliefs

    def _askable(
        self, situation: Situation, count: int
    ) -> tuple[Int[np.ndarray, "pair 2"], Bool[np.ndarray, "pair worker"] | None]:
        """Pairs, and which workers may be asked about each; None if all may."""
        if self.among is None:
            return _candidates(situation, count), None
        check_among(self.among)
        table = read_table(self.among, "among", ["left", "right"], ["worker"])
        left, right = (
            item_positions("among", table[side], situation.item_ids).numpy()
            for side in ("left", "right")
        )
        reject_self_pairs("among", table["left"], left == right)
        is_open = ~situation.asked.is_settled(left, right)
        table, items = table[is_open], np.stack([left, right], 1)[is_open]
        keys = situation.asked.pair_keys(*items.T)
        _, first, group = np.unique(keys, return_index=True, return_inverse=True)
        if "worker" not in table:
            return items[first], None
        ids = situation.crowd.ids
        return items[first], allowed_workers(table["worker"], group, len(first), ids)


def _teaching(
    beliefs: Beliefs,
    items: Int[np.ndarray, "pair 2"],
    same: Float[np.ndarray, " pair"],
    channel: Float[np.ndarray, "truth label"],
) -> Teaching:
    """The information of answers about pairs on other items; without components there is none."""
    if beliefs.components.shape[1]:
        return PairTeaching.of(beliefs, items, same, channel)
    return ItemTeaching(beliefs, items, np.zeros(len(items)))


def _candidates(situation: Situation, count: int) -> Int[np.ndarray, "pair 2"]:
    """Pairs that can be asked, at least ``count`` if possible, in time linear in the items."""
    number, chance = max(4 * count, _MIN_SEEDS), situation.criterion
    found = np.empty((0, 2), dtype=int)
    if not isinstance(chance, SupportsDrawPairs):
        chance, found = Random(), _open_pairs(situation, _promising(situation, number))
        if len(found) < count and math.comb(situation.num_items, 2) <= _MAX_LISTED:
            return _open_pairs(situation, np.column_stack(np.triu_indices(situation.num_items, 1)))
    for doubled in range(_MAX_DOUBLINGS):
        if len(found) >= count:
            break
        size = _CLUSTERS_PER_ITEM * number * 2**doubled
        more = chance.draw_pairs(situation.num_items, size, situation.generator)
        found = _open_pairs(situation, np.vstack([found, more]))
    return found


def _open_pairs(
    situation: Situation, pairs: Int[np.ndarray, "pair 2"]
) -> Int[np.ndarray, "kept 2"]:
    """Distinct pairs with unknown answers that not all workers were asked about."""
    asked, crowd = situation.asked, situation.crowd
    pairs = _distinct(pairs)
    pairs = pairs[~asked.is_settled(*pairs.T)]
    if not len(crowd.ids):
        return pairs
    keys = asked.pair_keys(*pairs.T)
    answered = np.arange(len(pairs))  # pairs that all workers so far were asked about
    for code in crowd.codes[crowd.loads >= 1]:
        answered = answered[asked.pairs(np.full(len(answered), code), keys[answered])]
    return np.delete(pairs, answered, axis=0)


def _promising(situation: Situation, number: int) -> Int[np.ndarray, "pair 2"]:
    """Pairs of informative items with certain ones, and with each other; linear in the items."""
    beliefs, generator = situation.beliefs, situation.generator
    pool = situation.pool()
    number = min(number, len(pool))
    values = beliefs.own(pool) + beliefs.others(pool)
    by_value = np.argsort(-values, kind="stable")[: (number + 1) // 2]
    seeds = np.union1d(pool[by_value], generator.choice(pool, number // 2, replace=False))
    q = beliefs.probabilities
    surest = np.argsort(-q, axis=0, kind="stable")[:_SUREST]
    likeliest = np.argsort(-q[seeds], axis=1)[:, :_CLUSTERS_PER_ITEM]
    rank = generator.integers(len(surest), size=likeliest.shape)
    partners = np.column_stack([surest[rank, likeliest], generator.permutation(seeds)])
    left = np.repeat(seeds, partners.shape[1])
    ends = np.stack([left, partners.ravel()], 1)
    return np.vstack([ends, _between_components(situation)])


def _distinct(pairs: Int[np.ndarray, "pair 2"]) -> Int[np.ndarray, "kept 2"]:
    """Distinct pairs of two different items, the smaller position first."""
    ends = np.sort(pairs, axis=1)
    return np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)


def _between_components(situation: Situation) -> Int[np.ndarray, "pair 2"]:
    """Pairs of core items of every two components, or of each with the likeliest others."""
    beliefs, generator = situation.beliefs, situation.generator
    number = beliefs.components.shape[1]
    if number < 2:
        return np.empty((0, 2), dtype=int)
    held = beliefs.bound[:, None] * beliefs.components
    cores = np.argsort(-held, axis=0, kind="stable")[:_CORES]
    together = beliefs.together - 2 * np.eye(number)
    others = np.argsort(-together, axis=1, kind="stable")[:, : min(number - 1, _MAX_OTHERS)]
    one = np.repeat(np.arange(number), others.shape[1])
    # Small components have fewer core items.
    depth = np.take_along_axis(held, cores, 0)
    numbers = (depth > 0.5 * depth[0]).sum(0).clip(min=1)
    components = np.stack([one, others.ravel()], 1)
    places = (generator.random(components.shape) * numbers[components]).astype(int)
    return np.sort(cores[places, components], axis=1)
