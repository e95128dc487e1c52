"""Posteriors of the workers' rates: a class for every way of answering."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from pyro_crowdclust.annotators.sorted_pages import pair_rates
from pyro_crowdclust.asking.worker_counts import LEAST_SHARE, best_reading, normalized

# Counts below this are as good as none, but a Beta needs some.
_FEWEST = 1e-3
# Standard deviations by which it is clear that somebody says the opposite.
_CLEAR = 2.0
# Draws of the rates, fewer (but not below the least) if they have more values than this in all.
_DRAWS, _FEWEST_DRAWS, _MAX_VALUES = 256, 32, 4_000_000


class WorkerRates(ABC):
    """What is known of the rates of workers, and what rates mean for answers of every kind.

    ``rates`` are values of all rates, with a row for every worker: their means, or a draw.
    """

    @abstractmethod
    def mean(self) -> Float[np.ndarray, " worker *rate"]:
        """Posterior means of the rates."""

    @abstractmethod
    def draw(self, generator: np.random.Generator) -> Float[np.ndarray, " worker *rate"]:
        """A draw of the rates from their posteriors."""

    @abstractmethod
    def pseudo_counts(self, worker: int) -> tuple[float, float]:
        """(right, wrong) of a worker's answers, as means over the rates."""

    @abstractmethod
    def reliability(
        self, rates: Float[np.ndarray, " worker *rate"], num_clusters: int
    ) -> Float[np.ndarray, " worker"]:
        """r of ``placement_information``: the probability that an answer is not by chance."""

    @abstractmethod
    def pair_channels(
        self, rates: Float[np.ndarray, " worker *rate"], num_clusters: int
    ) -> Float[np.ndarray, "worker truth outcome"]:
        """``p(L | different), p(L | same)`` of an answer about a pair."""

    def say_opposite(self) -> Bool[np.ndarray, " worker"]:
        """Who clearly says "same" more often of pairs that are different; nobody by default."""
        return np.zeros(len(self.mean()), dtype=bool)

    def label_channels(
        self, rates: Float[np.ndarray, " worker *rate"], num_clusters: int
    ) -> Float[np.ndarray, "worker class label"]:
        """``p(L | class)`` of a label of an item, with even guesses where workers do not know."""
        known = self.reliability(rates, num_clusters)[:, None, None]
        return known * np.eye(num_clusters) + (1 - known) / num_clusters


@dataclass(frozen=True)
class PairRates(WorkerRates):
    """Sensitivity and specificity of answers about pairs, as Betas.

    Attributes
    ----------
    counts
        Pseudo-counts (right, wrong) of both.

    Examples
    --------
    >>> workers = PairRates(np.array([[[8.0, 2.0], [9.0, 1.0]]]))
    >>> workers.pair_channels(workers.mean(), 3)
    array([[[0.9, 0.1],
            [0.2, 0.8]]])
    >>> workers.reliability(workers.mean(), 3).round(2)
    array([0.84])
    """

    counts: Float[np.ndarray, "worker 2 2"]

    def mean(self) -> Float[np.ndarray, "worker 2"]:
        """Posterior means of sensitivity and specificity."""
        return normalized(self.counts)[..., 0]

    def draw(self, generator: np.random.Generator) -> Float[np.ndarray, "worker 2"]:
        """A draw of both."""
        return generator.beta(self.counts[..., 0], self.counts[..., 1])

    def pseudo_counts(self, worker: int) -> tuple[float, float]:
        """(right, wrong) of a worker's answers, as means over both rates."""
        right, wrong = self.counts[worker].mean(0)
        return float(right), float(wrong)

    def reliability(
        self, rates: Float[np.ndarray, "worker 2"], num_clusters: int
    ) -> Float[np.ndarray, " worker"]:
        """``(sensitivity + specificity - 1)^(1/2)``.

        It is that of placements whose pairs have these rates. Who says the opposite more often than
        not is read in this way, with ``1 - sensitivity`` and ``1 - specificity``.
        """
        is_opposite = self.mean().sum(-1, keepdims=True) < 1
        return _reliability_of_pairs(np.where(is_opposite, 1 - rates, rates))

    def say_opposite(self) -> Bool[np.ndarray, " worker"]:
        """Where ``sensitivity + specificity`` is below 1 by two posterior standard deviations."""
        mean, total = self.mean(), self.counts.sum(-1)
        deviation = np.sqrt((mean * (1 - mean) / (total + 1)).sum(-1))
        return mean.sum(-1) + _CLEAR * deviation < 1

    def pair_channels(
        self, rates: Float[np.ndarray, "worker 2"], num_clusters: int
    ) -> Float[np.ndarray, "worker truth outcome"]:
        """``[[b, 1 - b], [1 - a, a]]`` for sensitivity a and specificity b."""
        return _two_coins(*rates.T)


@dataclass(frozen=True)
class PlacementRates(WorkerRates):
    """Accuracy of placements on sorted pages, as Betas.

    Attributes
    ----------
    counts
        Pseudo-counts (right, wrong).

    Examples
    --------
    >>> workers = PlacementRates(np.array([[8.0, 2.0]]))
    >>> workers.reliability(workers.mean(), 3).round(2)
    array([0.7])
    """

    counts: Float[np.ndarray, "worker 2"]

    def mean(self) -> Float[np.ndarray, " worker"]:
        """Posterior means of the accuracy."""
        return normalized(self.counts)[..., 0]

    def draw(self, generator: np.random.Generator) -> Float[np.ndarray, " worker"]:
        """A draw of it."""
        return generator.beta(self.counts[..., 0], self.counts[..., 1])

    def pseudo_counts(self, worker: int) -> tuple[float, float]:
        """(right, wrong) of a worker's placements."""
        right, wrong = self.counts[worker]
        return float(right), float(wrong)

    def reliability(
        self, rates: Float[np.ndarray, " worker"], num_clusters: int
    ) -> Float[np.ndarray, " worker"]:
        """``a - (1 - a) / (C - 1)`` for accuracy a among C clusters."""
        others = max(num_clusters - 1, 1)
        return np.clip(rates - (1 - rates) / others, 0.0, 1.0)

    def pair_channels(
        self, rates: Float[np.ndarray, " worker"], num_clusters: int
    ) -> Float[np.ndarray, "worker truth outcome"]:
        """Those of the pairs on a page (``pair_rates``)."""
        return _two_coins(*pair_rates(rates, max(num_clusters, 2)))


@dataclass(frozen=True)
class GradeRates(WorkerRates):
    """Shares of the grades and of "can't tell", given that pairs are different or the same.

    To rate a worker, each grade is read as "same" if it is more probable for pairs that are.

    Attributes
    ----------
    counts
        Pseudo-counts of Dirichlets: of pairs that are different, and that are the same.

    Examples
    --------
    >>> workers = GradeRates(np.array([[[6.0, 3.0, 1.0], [1.0, 2.0, 7.0]]]))
    >>> workers.pseudo_counts(0)  # 9 and 1 of the different, 7 and 3 of the same
    (8.0, 2.0)
    """

    counts: Float[np.ndarray, "worker truth outcome"]

    def mean(self) -> Float[np.ndarray, "worker truth outcome"]:
        """Posterior means of the shares."""
        return normalized(self.counts)

    def draw(self, generator: np.random.Generator) -> Float[np.ndarray, "worker truth outcome"]:
        """A draw of the shares."""
        return _drawn_rows(self.counts, generator)

    def pseudo_counts(self, worker: int) -> tuple[float, float]:
        """(right, wrong) of a worker's answers as they are read, as means over both truths."""
        return _right_and_wrong(self.counts[worker], best_reading(self.counts[[worker]])[0])

    def reliability(
        self, rates: Float[np.ndarray, "worker truth outcome"], num_clusters: int
    ) -> Float[np.ndarray, " worker"]:
        """As ``PairRates``, of answers as they are read."""
        return _reliability_of_pairs((rates * best_reading(self.counts)).sum(-1))

    def pair_channels(
        self, rates: Float[np.ndarray, "worker truth outcome"], num_clusters: int
    ) -> Float[np.ndarray, "worker truth outcome"]:
        """The shares themselves."""
        return rates


@dataclass(frozen=True)
class LabelRates(WorkerRates):
    """Confusion matrices of class labels, as Dirichlets.

    Attributes
    ----------
    counts
        Pseudo-counts of every row.

    Examples
    --------
    >>> workers = LabelRates(np.array([[[8.0, 2.0], [1.0, 9.0]]]))
    >>> workers.reliability(workers.mean(), 2).round(2), workers.pseudo_counts(0)
    (array([0.7]), (8.5, 1.5))
    """

    counts: Float[np.ndarray, "worker class label"]

    def mean(self) -> Float[np.ndarray, "worker class label"]:
        """Posterior means of the matrices."""
        return normalized(self.counts)

    def draw(self, generator: np.random.Generator) -> Float[np.ndarray, "worker class label"]:
        """A draw of every row."""
        return _drawn_rows(self.counts, generator)

    def pseudo_counts(self, worker: int) -> tuple[float, float]:
        """(right, wrong) of a worker's labels, as means over the classes."""
        counts = self.counts[worker]
        return _right_and_wrong(counts, np.eye(len(counts), dtype=bool))

    def reliability(
        self, rates: Float[np.ndarray, "worker class label"], num_clusters: int
    ) -> Float[np.ndarray, " worker"]:
        """``(a - 1 / C) / (1 - 1 / C)`` for the mean a of the shares of right labels."""
        chance = 1 / rates.shape[-1]
        right = np.diagonal(rates, axis1=-2, axis2=-1).mean(-1)
        return np.clip((right - chance) / max(1 - chance, _FEWEST), 0.0, 1.0)

    def pair_channels(
        self, rates: Float[np.ndarray, "worker class label"], num_clusters: int
    ) -> Float[np.ndarray, "worker truth outcome"]:
        """Those of workers who name the classes of both items, independently, and compare them.

        ``p("same" | c, d) = sum_l gamma_cl gamma_dl``, in the mean over classes c = d, and c != d.
        """
        number = rates.shape[-1]
        same = np.einsum("wcl,wdl->wcd", rates, rates)
        of_same = np.trace(same, axis1=-2, axis2=-1) / number
        of_others = (same.sum((-2, -1)) - of_same * number) / max(number * (number - 1), 1)
        return _two_coins(of_same, 1 - of_others)

    def label_channels(
        self, rates: Float[np.ndarray, "worker class label"], num_clusters: int
    ) -> Float[np.ndarray, "worker class label"]:
        """The matrices themselves."""
        return rates


def drawn(draw: Callable[[], np.ndarray]) -> np.ndarray:
    """Draws of rates for a batch, or of what follows from them."""
    first = draw()
    number = int(np.clip(_MAX_VALUES // max(first.size, 1), _FEWEST_DRAWS, _DRAWS))
    return np.stack([first, *(draw() for _ in range(number - 1))])


def _two_coins(
    sensitivity: Float[np.ndarray, " worker"], specificity: Float[np.ndarray, " worker"]
) -> Float[np.ndarray, "worker truth outcome"]:
    """``p(L | different), p(L | same)`` of binary answers."""
    rows = [[specificity, 1 - specificity], [1 - sensitivity, sensitivity]]
    return np.moveaxis(np.array(rows), -1, 0)


def _reliability_of_pairs(right: Float[np.ndarray, "worker 2"]) -> Float[np.ndarray, " worker"]:
    """``(a + b - 1)^(1/2)``, from how often answers are right for both truths."""
    return np.sqrt(np.clip(right.sum(-1) - 1.0, 0.0, 1.0))


def _drawn_rows(
    counts: Float[np.ndarray, "worker row outcome"], generator: np.random.Generator
) -> Float[np.ndarray, "worker row outcome"]:
    """A draw of every row from its Dirichlet."""
    return normalized(generator.standard_gamma(counts) + LEAST_SHARE)


def _right_and_wrong(
    counts: Float[np.ndarray, "row outcome"], is_right: Bool[np.ndarray, "row outcome"]
) -> tuple[float, float]:
    """Counts of right and of wrong answers, as means over the rows."""
    right, wrong = ((counts * chosen).sum(-1).mean() for chosen in (is_right, ~is_right))
    return max(float(right), _FEWEST), max(float(wrong), _FEWEST)
