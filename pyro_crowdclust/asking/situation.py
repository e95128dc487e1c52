"""The state from which questions are chosen: beliefs, crowd, criterion, and earlier questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from pyro_crowdclust.asking.asked import Asked
from pyro_crowdclust.asking.beliefs import Beliefs
from pyro_crowdclust.asking.criteria import Criterion, Prospects
from pyro_crowdclust.asking.crowd import Crowd

# Questions are about at most this many items, so that the time does not grow with all items.
_MAX_ITEMS = 4000
# Number of most certain items of every cluster, with which others are compared.
_SUREST = 40
# Reliability that is assumed if there are no workers.
TYPICAL_RELIABILITY = 0.8


@dataclass(frozen=True)
class Situation:
    """The beliefs, the workers who can be asked, earlier questions, and the criterion.

    Attributes
    ----------
    item_ids
        The user's ids.
    beliefs, crowd, asked, criterion
        See their classes.
    everybody
        All workers who have answered, by their codes in the data.
    exploration
        Share of the questions that are drawn at random.
    generator
        Source of all random numbers.
    """

    item_ids: pd.Index
    beliefs: Beliefs
    crowd: Crowd
    everybody: Crowd
    asked: Asked
    criterion: Criterion
    exploration: float
    generator: np.random.Generator

    @property
    def num_items(self) -> int:
        """Number of all items."""
        return len(self.item_ids)

    def explores(self) -> bool:
        """Whether the next question is drawn at random."""
        return bool(self.generator.random() < self.exploration)

    def pool(self, among: Bool[np.ndarray, " item"] | None = None) -> Int[np.ndarray, " chosen"]:
        """Items that questions may be about: all, or the most informative, most certain and others.

        This takes one pass over all items (or those in ``among``); later steps are linear in the
        size of the pool.
        """
        every = np.arange(self.num_items) if among is None else np.flatnonzero(among)
        if len(every) <= _MAX_ITEMS:
            return every
        values = self.beliefs.own(every) + self.beliefs.others(every)
        prospects = Prospects(values, self.beliefs.probabilities[every])
        scores = self.criterion.scores(prospects, self.generator)
        best = every[np.argpartition(-scores, _MAX_ITEMS // 2)[: _MAX_ITEMS // 2]]
        others = self.generator.choice(every, _MAX_ITEMS // 4, replace=False)
        surest = np.intersect1d(self.beliefs.most_certain(_SUREST), every)
        return np.unique(np.concatenate([best, surest, others]))

    def best(
        self, scores: Float[np.ndarray, " question"], eligible: Bool[np.ndarray, " question"]
    ) -> int | None:
        """One of the best eligible questions, or a random one to explore; None if none is left."""
        places = np.flatnonzero(eligible)
        if not len(places):
            return None
        if self.explores():
            return int(self.generator.choice(places))
        top = scores[places].max()
        return int(self.generator.choice(places[scores[places] >= top]))


def check_among(among: Any) -> None:
    """Raise a ``ValueError`` if ``among`` is an empty table, or a number of questions."""
    if isinstance(among, int):
        raise ValueError(
            f"among is {among}, but must be a table of what may be asked; the number of questions "
            f"is another argument: suggest(result, kind, count={among})"
        )
    if hasattr(among, "__len__") and not len(among):
        raise ValueError(
            "among is empty, so there is nothing to ask; omit it to choose from all questions"
        )
