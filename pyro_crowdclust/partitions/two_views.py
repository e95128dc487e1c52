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
    def by_item(self) -> tuple[Int[np.ndarray, " place"], ...]:
        """Where the answers about every item begin, their other items, and the answers."""
        ends = np.concatenate([self.left, self.right])
        order = np.argsort(ends, kind="stable")
        first = np.searchsorted(ends[order], np.arange(self.num_items + 1))
        return first, np.concatenate([self.right, self.left])[order], order % len(self.left)

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
    by_others = in_fit & ~is_of_few
    for step in range(_WITHOUT):
        temper = min(1.0, 0.3 + step / _WITHOUT)
        state.sweep(by_others, temper, _TRUSTED if 2 * step < _WITHOUT else _FLAT)
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
        from pyro_crowdclust.partitions.view_visits import AnswersAbout, TwoPartitions

        runs = len(is_own)
        self.pairs, self.is_own, self.in_fit = pairs, is_own, in_fit
        self.rng = np.random.default_rng(seed)
        ends = pairs.left, pairs.right
        self.about = AnswersAbout(*ends, pairs.worker, pairs.label.astype(int), *pairs.by_item)
        z = self.rng.integers(_CLUSTERS, size=(runs, pairs.num_items))
        sizes = np.stack([(z == one).sum(1) for one in range(_CLUSTERS)], 1)
        self.drawn = TwoPartitions(z, z.copy(), np.zeros(z.shape, dtype=bool), sizes)
        self.is_same, self.is_alike = np.zeros((2, *in_fit.shape), dtype=bool)
        self.apart = np.zeros(runs)
        self.log_sizes = np.log(np.arange(pairs.num_items + 1) + 2 / _CLUSTERS)
        # Pseudo-counts by what the worker sees, and by label.
        right, wrong = _TRUSTED
        start = np.array([[right, wrong], [wrong, right]])
        self.rates = np.tile(start, (runs, pairs.num_workers, 1, 1))

    def sweep(
        self, counted: Bool[np.ndarray, "run answer"], temper: float, prior: tuple[float, float]
    ) -> None:
        """Draw the clusters of every item in turn, then estimate the rates of the workers."""
        from pyro_crowdclust.partitions.view_visits import count_views, visit_views

        order = self.rng.permutation(self.pairs.num_items)
        chance = self.rng.random((*self.drawn.z.shape, 3))
        beliefs = self.log_sizes, self.apart, self.drawn, chance
        visit_views(self.about, order, counted, self.is_own, temper * self._weights(), *beliefs)
        right, wrong = prior
        self.rates[:] = [[right, wrong], [wrong, right]]
        found = self.rates, self.is_same, self.is_alike
        count_views(self.about, self.in_fit, self.is_own, self.drawn, *found)

    def draw_apart(self, sees_own: Bool[np.ndarray, " run"]) -> None:
        """Draw e of the runs in which the few have a partition of their own."""
        number = self.drawn.is_apart.sum(1)
        drawn = self.rng.beta(_APART + number, _ALIKE + self.pairs.num_items - number)
        self.apart = np.where(sees_own, drawn, 0.0)

    @property
    def score(self) -> Float[np.ndarray, " run"]:
        """``log p(L | z, y)`` but for a constant."""
        return betaln(self.rates[..., 0], self.rates[..., 1]).sum((1, 2))

    def _weights(self) -> Float[np.ndarray, "run label worker"]:
        """``log p(L | same) - log p(L | different)``."""
        log_rates = np.log(self.rates / self.rates.sum(-1, keepdims=True))
        return np.ascontiguousarray(np.diff(log_rates, axis=2)[:, :, 0].transpose(0, 2, 1))
