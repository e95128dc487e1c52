"""Draws of two partitions of the same items: what the crowd sees, and what a few workers see.

    z_i ~ pi,                    pi ~ Dirichlet(2 / K, ..., 2 / K)
    y_i = z_i with probability 1 - e, else uniform,    e ~ Beta(2, 8)
    L_n | worker m ~ two coins of m, on whether the pair shares a cluster in z; for the few, in y

Workers who are independent given the truth err about different items, so that y gains nothing.
Workers who make the same mistakes explain each other's answers by y and leave z to the others.

Draws begin without the few workers' answers, tempered, so that z is what the others see; then all
answers count. Chains may stay where they began, so that one truth (y = z) must be drawn from the
same beginnings before it is compared. All runs take their steps together, item by item.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import betaln

from pyro_crowdclust.partitions.categorical_draws import draw_categories_by

# K, steps before all answers count, and afterwards; draws of the second half of these are kept.
_CLUSTERS, _WITHOUT, _WITH = 6, 60, 90
# Pseudo-counts of right and wrong answers: at the beginning, and later.
_TRUSTED, _FLAT = (6.0, 2.0), (1.5, 1.0)
# Pseudo-counts of items that the few see in another cluster, and in the same one.
_APART, _ALIKE = 2.0, 8.0
_FIRST_APART = 0.3


@dataclass(frozen=True)
class SeenPairs:
    """Answers "same" or "different", in positions of items and codes of workers from 0."""

    left: Int[np.ndarray, " answer"]
    right: Int[np.ndarray, " answer"]
    worker: Int[np.ndarray, " answer"]
    label: Bool[np.ndarray, " answer"]

    @cached_property
    def num_items(self) -> int:
        """Number of items."""
        return int(max(self.left.max(), self.right.max())) + 1

    @cached_property
    def num_workers(self) -> int:
        """Number of workers."""
        return int(self.worker.max()) + 1

    @cached_property
    def of_item(self) -> list[tuple[Int[np.ndarray, " own"], Int[np.ndarray, " own"]]]:
        """For every item the other items of its answers, and the answers."""
        ends = np.concatenate([self.left, self.right])
        others = np.concatenate([self.right, self.left])
        order = np.argsort(ends, kind="stable")
        cuts = np.searchsorted(ends[order], np.arange(1, self.num_items))
        return [(others[own], own % len(self.left)) for own in np.split(order, cuts)]

    def counts(self, one: Float[np.ndarray, "run answer"]) -> Float[np.ndarray, "run worker"]:
        """Sums over the answers of every worker."""
        runs = np.arange(len(one))[:, None]
        place = (runs * self.num_workers + self.worker).ravel()
        size = len(one) * self.num_workers
        return np.bincount(place, one.ravel(), size).reshape(len(one), -1)


@dataclass(frozen=True)
class ViewDraws:
    """Means over the draws of every run.

    Attributes
    ----------
    same
        How often the pair of an answer shares a cluster as the worker sees it.
    alike
        How often both partitions say the same of the pair.
    score
        ``log p(L | z, y)`` of the answers in the fit, with the rates of workers integrated out.
    """

    same: Float[np.ndarray, "run answer"]
    alike: Float[np.ndarray, "run answer"]
    score: Float[np.ndarray, " run"]


def draw_views(
    pairs: SeenPairs,
    is_of_few: Bool[np.ndarray, "run answer"],
    in_fit: Bool[np.ndarray, "run answer"],
    sees_own: Bool[np.ndarray, " run"],
    seed: int,
) -> ViewDraws:
    """Draw both partitions in every run.

    Parameters
    ----------
    pairs
        The answers.
    is_of_few
        Which answers are of the few workers, and do not count at the beginning.
    in_fit
        Which answers are known; the others are held out.
    sees_own
        Whether the few have a partition of their own, or y = z.
    seed
        Seed of the draws.

    Examples
    --------
    >>> left, right, worker = np.array([[0, 0, 1], [1, 2, 2], [0, 0, 0]])
    >>> pairs = SeenPairs(left, right, worker, np.array([True, False, False]))
    >>> every = np.ones((1, 3), dtype=bool)
    >>> draws = draw_views(pairs, ~every, every, np.array([False]), seed=0)
    >>> draws.alike.tolist()
    [[1.0, 1.0, 1.0]]
    """
    state = _Views(pairs, is_of_few & sees_own[:, None], in_fit, seed)
    same, alike = np.zeros(in_fit.shape), np.zeros(in_fit.shape)
    score = np.zeros(len(in_fit))
    for step in range(_WITHOUT):
        temper = min(1.0, 0.3 + step / _WITHOUT)
        state.sweep(in_fit & ~is_of_few, temper, _TRUSTED if 2 * step < _WITHOUT else _FLAT)
    state.apart = np.where(sees_own, _FIRST_APART, 0.0)
    for step in range(_WITH):
        state.sweep(in_fit, 1.0, _FLAT)
        if step > 5:
            state.draw_apart(sees_own)
        if 2 * step >= _WITH:
            same += state.is_same
            alike += state.is_alike
            score += state.score
    kept = _WITH - _WITH // 2
    return ViewDraws(same / kept, alike / kept, score / kept)


class _Views:
    """The current draw of all runs."""

    def __init__(
        self,
        pairs: SeenPairs,
        is_own: Bool[np.ndarray, "run answer"],
        in_fit: Bool[np.ndarray, "run answer"],
        seed: int,
    ) -> None:
        runs = len(is_own)
        self.pairs, self.is_own, self.in_fit = pairs, is_own, in_fit
        self.rng = np.random.default_rng(seed)
        self.runs = np.arange(runs)
        self.z = self.rng.integers(_CLUSTERS, size=(runs, pairs.num_items))
        self.y, self.is_apart = self.z.copy(), np.zeros(self.z.shape, dtype=bool)
        self.sizes = np.stack([(self.z == one).sum(1) for one in range(_CLUSTERS)], 1).astype(float)
        self.apart = np.zeros(runs)
        start = np.tile(_TRUSTED, (runs, pairs.num_workers, 1))
        self.rates = start, start.copy()

    def sweep(
        self, counted: Bool[np.ndarray, "run answer"], temper: float, prior: tuple[float, float]
    ) -> None:
        """Draw the clusters of every item in turn, then estimate the rates of the workers."""
        weight = self._weights() * counted * temper
        of_few = weight * self.is_own
        of_crowd = weight - of_few
        for item in self.rng.permutation(self.pairs.num_items):
            self._draw(item, of_crowd, of_few)
        self._estimate(prior)

    def draw_apart(self, sees_own: Bool[np.ndarray, " run"]) -> None:
        """Draw e of the runs in which the few have a partition of their own."""
        number = self.is_apart.sum(1)
        drawn = self.rng.beta(_APART + number, _ALIKE + self.pairs.num_items - number)
        self.apart = np.where(sees_own, drawn, 0.0)

    @property
    def score(self) -> Float[np.ndarray, " run"]:
        """``log p(L | z, y)`` but for a constant."""
        return sum(betaln(one[..., 0], one[..., 1]).sum(1) for one in self.rates)

    def _weights(self) -> Float[np.ndarray, "run answer"]:
        """``log p(L | same) - log p(L | different)``."""
        alpha, beta = (np.log(one / one.sum(-1, keepdims=True)) for one in self.rates)
        same, other = alpha[..., 0] - beta[..., 1], alpha[..., 1] - beta[..., 0]
        worker = self.pairs.worker
        return np.where(self.pairs.label, same[:, worker], other[:, worker])

    def _draw(
        self,
        item: int,
        of_crowd: Float[np.ndarray, "run answer"],
        of_few: Float[np.ndarray, "run answer"],
    ) -> None:
        """Draw z of an item with y summed out, then y given z."""
        others, answers = self.pairs.of_item[item]
        self.sizes[self.runs, self.z[:, item]] -= 1
        seen = self._messages(self.z[:, others], of_crowd[:, answers])
        seen += np.log(self.sizes + 2 / _CLUSTERS)
        by_few = self._messages(self.y[:, others], of_few[:, answers])
        likely = np.exp(by_few - by_few.max(1, keepdims=True))
        elsewhere = self.apart * likely.mean(1)
        either = (1 - self.apart)[:, None] * likely + elsewhere[:, None]
        z = draw_categories_by(self.rng, seen + np.log(either))
        apart = self.rng.random(len(z)) * either[self.runs, z] < elsewhere
        self.is_apart[:, item] = apart
        own = draw_categories_by(self.rng, by_few)
        self.z[:, item], self.y[:, item] = z, np.where(apart, own, z)
        self.sizes[self.runs, z] += 1

    def _messages(
        self, clusters: Int[np.ndarray, "run own"], weight: Float[np.ndarray, "run own"]
    ) -> Float[np.ndarray, "run cluster"]:
        """Sums of the weights of the answers about partners in each cluster."""
        place = (self.runs[:, None] * _CLUSTERS + clusters).ravel()
        size = len(self.runs) * _CLUSTERS
        return np.bincount(place, weight.ravel(), size).reshape(-1, _CLUSTERS)

    def _estimate(self, prior: tuple[float, float]) -> None:
        """Pseudo-counts of the rates, and what both partitions say of the pairs."""
        left, right, label = self.pairs.left, self.pairs.right, self.pairs.label
        by_z = self.z[:, left] == self.z[:, right]
        by_y = self.y[:, left] == self.y[:, right]
        self.is_alike, self.is_same = by_z == by_y, np.where(self.is_own, by_y, by_z)
        found = []
        for truth, word in (self.is_same, label), (~self.is_same, ~label):
            right_ones = self.pairs.counts(1.0 * (self.in_fit & truth & word))
            wrong_ones = self.pairs.counts(1.0 * (self.in_fit & truth & ~word))
            found.append(np.stack([right_ones, wrong_ones], -1) + prior)
        self.rates = found[0], found[1]
