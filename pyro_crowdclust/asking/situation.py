"""All that a kind of question is made from: beliefs, crowd, criterion, and what was asked."""

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

# Questions are made of at most so many items, whatever the number of all.
_MOST_ITEMS = 4000
# Every cluster offers so many of its surest items to compare others with.
_SUREST = 40
# How reliable somebody is of whom nothing is known, where there is no crowd.
TYPICAL_RELIABILITY = 0.8


@dataclass
class Situation:
    """What is believed, who can be asked, and what is wanted.

    Attributes
    ----------
    item_ids
        The user's own.
    beliefs, crowd, asked, criterion
        As the classes say.
    exploration
        Share of the questions that are drawn at random.
    generator
        All chance comes from it.
    """

    item_ids: pd.Index
    beliefs: Beliefs
    crowd: Crowd
    asked: Asked
    criterion: Criterion
    exploration: float
    generator: np.random.Generator

    @property
    def num_items(self) -> int:
        """Of all items."""
        return len(self.item_ids)

    def explores(self) -> bool:
        """Whether the next question is drawn at random."""
        return bool(self.generator.random() < self.exploration)

    def pool(self, among: Bool[np.ndarray, " item"] | None = None) -> Int[np.ndarray, " chosen"]:
        """Items that questions are made of: all, or the most promising, the surest and some others.

        One pass over all items, or all among which they are to be; what follows has the size of the
        pool.
        """
        every = np.arange(self.num_items) if among is None else np.flatnonzero(among)
        if len(every) <= _MOST_ITEMS:
            return every
        values = self.beliefs.own(every) + self.beliefs.others(every)
        prospects = Prospects(values, self.beliefs.probabilities[every])
        worth = self.criterion.worth(prospects, self.generator)
        best = every[np.argpartition(-worth, _MOST_ITEMS // 2)[: _MOST_ITEMS // 2]]
        others = self.generator.choice(every, _MOST_ITEMS // 4, replace=False)
        surest = np.intersect1d(self.beliefs.surest(_SUREST), every)
        return np.unique(np.concatenate([best, surest, others]))

    def best(
        self, worth: Float[np.ndarray, " question"], eligible: Bool[np.ndarray, " question"]
    ) -> int | None:
        """One of the best of the eligible ones, or now and then any; None if there are none."""
        places = np.flatnonzero(eligible)
        if not len(places):
            return None
        if self.explores():
            return int(self.generator.choice(places))
        top = worth[places].max()
        return int(self.generator.choice(places[worth[places] >= top]))


def check_among(among: Any) -> None:
    """Raise a ``ValueError`` where there are no questions to choose from, or a number of them."""
    if isinstance(among, int):
        raise ValueError(
            f"among is {among}, but must be a table of what may be asked; how many to ask is "
            f"another argument: suggest(result, kind, count={among})"
        )
    if hasattr(among, "__len__") and not len(among):
        raise ValueError(
            "among is empty, and leaves nothing to ask; to choose from everything leave it out"
        )
