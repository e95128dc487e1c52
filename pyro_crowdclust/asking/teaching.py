"""What answers teach about items that nobody asked about: those of the same components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from jaxtyping import Float, Int
from scipy.special import xlogy

from pyro_crowdclust.asking.beliefs import Beliefs
from pyro_crowdclust.asking.drawn_clusters import DrawnClusters
from pyro_crowdclust.families import SMALLEST_PROBABILITY

# Questions whose tables are in memory at a time.
_AT_A_TIME = 512
# Pairs of components of which a batch is chosen: those whose answers tell most.
_MOST_PAIRS = 400


class Teaching(Protocol):
    """What the questions of a batch teach about others, one chosen after the other."""

    def values(self) -> Float[np.ndarray, " question"]:
        """What each tells of others, in nats, beyond what those that were chosen tell."""

    def expect(self, question: int) -> None:
        """Take one that is chosen for answered."""


@dataclass
class ItemTeaching:
    """Of questions about items one by one: a share of what knowing the item tells of others.

    Attributes
    ----------
    beliefs
        Of which this share is taken from what is left to tell once a question is chosen.
    items
        What each question is about.
    share
        How much of what there is to know of the items its answer is expected to tell.
    """

    beliefs: Beliefs
    items: Int[np.ndarray, "question part"]
    share: Float[np.ndarray, " question"]

    def values(self) -> Float[np.ndarray, " question"]:
        """The share of ``beliefs.others``."""
        return self.share * self.beliefs.others(self.items.ravel()).reshape(self.items.shape).sum(1)

    def expect(self, question: int) -> None:
        """Less is left to tell of the items' components."""
        for item in self.items[question]:
            self.beliefs.expect(int(item), min(float(self.share[question]), 1.0))


@dataclass
class PairTeaching:
    """Of questions about pairs: the information about the clusters of all components.

        V(L) = sum_m N_m I(c_m; L)

    with c_m by draws of the partition, and N_m the unasked items of component m. The answer L
    depends on the draw by whether the components of the two items are one cluster alone, as far as
    both items are bound to these. For a batch

        V(L | L_1 .. L_n) = V(L) prod_j min(1, V(L | L_j) / V(L))
        V(L | L_j) = sum_m N_m I(c_m; L | L_j)

    over all that can be said to question j. For two questions that is exact, unless one makes the
    other worth more, which is not counted.

    Attributes
    ----------
    draws
        The clusters of all components, in so many draws.
    unasked
        N.
    components
        The components of the two items.
    channels
        p(L | the components are two clusters) and p(L | one cluster).
    """

    draws: Int[np.ndarray, "draw component"]
    unasked: Float[np.ndarray, " component"]
    components: Int[np.ndarray, "question 2"]
    channels: Float[np.ndarray, "question truth label"]

    @classmethod
    def of(
        cls,
        beliefs: Beliefs,
        items: Int[np.ndarray, "question 2"],
        same: Float[np.ndarray, " question"],
        channel: Float[np.ndarray, "truth label"],
    ) -> PairTeaching:
        """Of pairs that are the same with these probabilities, answered through the channel."""
        alike = beliefs.components[items]
        components = alike.argmax(2)
        both = (beliefs.bound[items] * alike.max(2)).prod(1)
        together = beliefs.together[components[:, 0], components[:, 1]]
        # Where one of them is not bound, whatever its component is.
        loose = np.clip(same - both * together, 0.0, 1 - both)
        one = np.stack([loose, loose + both], 1)[..., None]
        channels = (1 - one) * channel[0] + one * channel[1]
        return cls(beliefs.roots, beliefs.unasked, components, channels)

    def __post_init__(self) -> None:
        draws, number = self.draws.shape
        low, high = np.sort(self.components, axis=1).T
        pairs, self._pair = np.unique(low * number + high, return_inverse=True)
        ends = np.divmod(pairs, number)
        self._one = (self.draws[:, ends[0]] == self.draws[:, ends[1]]).astype(np.float64)
        self._drawn = DrawnClusters(self.draws)
        every = np.full(draws, 1 / draws)
        parts = np.array_split(np.arange(len(self._pair)), len(self._pair) // _AT_A_TIME + 1)
        self._alone = np.concatenate([self._information(every, part) for part in parts])
        # The question that tells most stands for all about the same two components.
        order = np.lexsort([-self._alone, self._pair])
        best = order[np.unique(self._pair[order], return_index=True)[1]]
        self._best = best[np.argsort(-self._alone[best], kind="stable")[:_MOST_PAIRS]]
        self._left = np.ones(len(pairs))

    def values(self) -> Float[np.ndarray, " question"]:
        """V of every question, given those that were chosen."""
        return self._alone * self._left[self._pair]

    def expect(self, question: int) -> None:
        """What every question tells beyond this one; those that tell least are left out."""
        one = self._one[:, self._pair[question]]
        after = np.zeros(len(self._best))
        for apart, joined in self.channels[question].T:
            said = (apart + (joined - apart) * one) / len(one)
            after += said.sum() * self._information(said / said.sum(), self._best)
        before = self._alone[self._best]
        left = np.zeros_like(self._left)
        left[self._pair[self._best]] = np.minimum(after / np.maximum(before, 1e-12), 1.0)
        self._left *= left

    def _information(
        self, weight: Float[np.ndarray, " draw"], questions: Int[np.ndarray, " chosen"]
    ) -> Float[np.ndarray, " chosen"]:
        """V under weights of the draws, less what that many draws tell of what is unrelated."""
        pair, channels = self._pair[questions], self.channels[questions]
        places, back = np.unique(pair, return_inverse=True)
        marginal = weight @ self._drawn.table
        joint = ((self._one[:, places] * weight[:, None]).T @ self._drawn.table)[back]
        # Rounding may go beyond 1, where the variance of an answer that never is would be below 0.
        one = (weight @ self._one[:, places])[back].clip(0.0, 1.0)
        told = np.zeros((len(pair), len(self._drawn.numbers)))
        noise = np.zeros(len(pair))
        for label in range(channels.shape[2]):
            apart, gap = channels[:, 0, label], channels[:, 1, label] - channels[:, 0, label]
            total = np.maximum(apart + gap * one, SMALLEST_PROBABILITY)
            # Not below 0, as rounding may have it where an answer never is that of a draw.
            said = np.maximum(apart[:, None] * marginal + gap[:, None] * joint, 0.0)
            ratio = said / np.maximum(total[:, None] * marginal, SMALLEST_PROBABILITY)
            told += self._drawn.sums(xlogy(said, ratio))
            noise += gap**2 * one * (1 - one) / total
        # Miller 1955, for an answer that follows the draw as far as it does.
        chance = noise[:, None] * (self._drawn.numbers - 1) * (weight**2).sum() / 2
        return np.asarray(np.maximum(told - chance, 0.0) @ self.unasked)
