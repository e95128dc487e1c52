"""Information of answers about items that were not asked about, through common components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from jaxtyping import Float, Int
from scipy.special import xlogy

from pyro_crowdclust.asking.beliefs import Beliefs
from pyro_crowdclust.asking.drawn_clusters import DrawnClusters
from pyro_crowdclust.families import SMALLEST_PROBABILITY

# Questions whose tables are in memory at the same time.
_AT_A_TIME = 512
# A batch is chosen from this many pairs of components, those with the most informative answers.
_MAX_PAIRS = 400


class Teaching(Protocol):
    """The information of questions of a batch about other items, given those already chosen."""

    def values(self) -> Float[np.ndarray, " question"]:
        """Information of each question about other items, in nats, beyond the chosen questions."""

    def expect(self, question: int) -> None:
        """Add a question to those that are chosen."""


@dataclass
class ItemTeaching:
    """Information of questions about single items: a share of that in the items' clusters.

    Attributes
    ----------
    beliefs
        The beliefs, as they are expected to be after the questions chosen so far.
    items
        The items of every question.
    share
        Expected information of the answer, as a share of the entropy of the items.
    """

    beliefs: Beliefs
    items: Int[np.ndarray, "question part"]
    share: Float[np.ndarray, " question"]

    def values(self) -> Float[np.ndarray, " question"]:
        """``share`` times ``beliefs.others``."""
        return self.share * self.beliefs.others(self.items.ravel()).reshape(self.items.shape).sum(1)

    def expect(self, question: int) -> None:
        """Reduce the remaining information about the items' components."""
        for item in self.items[question]:
            self.beliefs = self.beliefs.expect(int(item), min(float(self.share[question]), 1.0))


@dataclass
class PairTeaching:
    """Information of questions about pairs on the clusters of all components.

        V(L) = sum_m N_m I(c_m; L)

    with c_m from draws of the partition, and N_m the unasked items of component m. The answer L
    depends on the draw only through whether the components of the two items are one cluster, as far
    as both items are bound to these. For a batch

        V(L | L_1 .. L_n) = V(L) prod_j min(1, V(L | L_j) / V(L))
        V(L | L_j) = sum_m N_m I(c_m; L | L_j)

    averaged over the possible answers to question j. For two questions this is exact, unless the
    answer to one makes the other more informative, which is ignored.

    Attributes
    ----------
    draws
        The clusters of all components in every draw.
    unasked
        N_m.
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
        """Pairs that are the same with these probabilities, answered through the channel."""
        shares = beliefs.components[items]
        components = shares.argmax(2)
        both = (beliefs.bound[items] * shares.max(2)).prod(1)
        together = beliefs.together[components[:, 0], components[:, 1]]
        # Probability that they are the same, but one of them is not bound to its component.
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
        # The most informative question represents all about the same two components.
        order = np.lexsort([-self._alone, self._pair])
        best = order[np.unique(self._pair[order], return_index=True)[1]]
        self._best = best[np.argsort(-self._alone[best], kind="stable")[:_MAX_PAIRS]]
        self._left = np.ones(len(pairs))

    def values(self) -> Float[np.ndarray, " question"]:
        """V of every question, given the chosen ones."""
        return self._alone * self._left[self._pair]

    def expect(self, question: int) -> None:
        """Reduce V of every question, given this one; the least informative ones are dropped."""
        one = self._one[:, self._pair[question]]
        after = np.zeros(len(self._best))
        for apart, joined in self.channels[question].T:
            weight = (apart + (joined - apart) * one) / len(one)
            after += weight.sum() * self._information(weight / weight.sum(), self._best)
        before = self._alone[self._best]
        left = np.zeros_like(self._left)
        left[self._pair[self._best]] = np.minimum(after / np.maximum(before, 1e-12), 1.0)
        self._left *= left

    def _information(
        self, weight: Float[np.ndarray, " draw"], questions: Int[np.ndarray, " chosen"]
    ) -> Float[np.ndarray, " chosen"]:
        """V under weights of the draws, corrected for bias due to the number of draws."""
        pair, channels = self._pair[questions], self.channels[questions]
        places, back = np.unique(pair, return_inverse=True)
        marginal = weight @ self._drawn.table
        joint = ((self._one[:, places] * weight[:, None]).T @ self._drawn.table)[back]
        # Rounding errors above 1 would make the variance below negative.
        one = (weight @ self._one[:, places])[back].clip(0.0, 1.0)
        information = np.zeros((len(pair), len(self._drawn.numbers)))
        noise = np.zeros(len(pair))
        for label in range(channels.shape[2]):
            apart, gap = channels[:, 0, label], channels[:, 1, label] - channels[:, 0, label]
            total = np.maximum(apart + gap * one, SMALLEST_PROBABILITY)
            # Rounding errors may be negative if a draw excludes an answer.
            p_answer = np.maximum(apart[:, None] * marginal + gap[:, None] * joint, 0.0)
            ratio = p_answer / np.maximum(total[:, None] * marginal, SMALLEST_PROBABILITY)
            information += self._drawn.sums(xlogy(p_answer, ratio))
            noise += gap**2 * one * (1 - one) / total
        # Miller 1955, for an answer that depends on the draw only in part.
        chance = noise[:, None] * (self._drawn.numbers - 1) * (weight**2).sum() / 2
        return np.asarray(np.maximum(information - chance, 0.0) @ self.unasked)
