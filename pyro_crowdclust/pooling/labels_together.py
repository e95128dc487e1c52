"""Computations for ``discounted_classes``: classes, confusion matrices and agreement of workers.

See ``discounted_classes`` for the formulas.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from pyro_crowdclust.annotators.confusion import diagonal_concentration
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.data.soft_counts import (
    classes_at_rate,
    log_shares_of,
    rate_of_all,
    soft_counts,
    states_given,
)
from pyro_crowdclust.families import SMALLEST_PROBABILITY

# Pseudo-answers of a row of a confusion matrix, as in ``ConfusionMatrices``.
_RIGHT, _WRONG = 4.0, 2.0
# Pseudo-answers of a row for the expected agreement: with fewer, too much agreement would be
# expected of workers with few answers.
_EXPECTED = 1.0
# Two workers with fewer common items are not compared.
_MIN_COMMON = 30
_MAX_ERRORS = 2.5
# This many pairs of answers suffice to distinguish copies from chance; if there are more, the pairs
# of randomly drawn items are used.
_MAX_PAIRS = 2_000_000
# Size of a table that fits into the processor's cache.
_AT_ONCE = 2**18
# Iterations that update q and the rows in turn.
_STEPS = 20


class _Together(NamedTuple):
    """Pairs of answers about one item, by pairs of workers with enough common items.

    Attributes
    ----------
    answers
        Positions of the two answers.
    pair
        Index of the pair of workers.
    workers
        The two workers of every pair of workers.
    common
        How many pairs of answers these workers have.
    """

    answers: Int[np.ndarray, "2 both"]
    pair: Int[np.ndarray, " both"]
    workers: Int[np.ndarray, "2 pair"]
    common: Int[np.ndarray, " pair"]


class LabelsTogether:
    """Class labels, with the updates of classes and rows, and the agreement of pairs of workers."""

    def __init__(
        self, data: CrowdData, by_features: Float[np.ndarray, "item class"] | None = None
    ) -> None:
        self.data = data
        self.log_prior = None if by_features is None else np.log(by_features.clip(1e-12))
        self.labels: LabelMatrix = data.needed_class_labels.of_items(torch.arange(data.num_items))
        self.item, self.worker, self.label = (
            part.numpy() for part in (self.labels.item, self.labels.worker, self.labels.label)
        )
        self.matrix: Any = self.labels.matrix
        self.num_workers = data.num_workers
        self.prior = diagonal_concentration(data.num_classes, _RIGHT, _WRONG).numpy()

    @cached_property
    def together(self) -> _Together:
        """Pairs of answers about one item, by pairs of workers with enough common items."""
        answers, pair, workers, common = self.all_together
        kept = common >= _MIN_COMMON
        number, is_kept = np.cumsum(kept) - 1, kept[pair]
        return _Together(answers[:, is_kept], number[pair[is_kept]], workers[:, kept], common[kept])

    @cached_property
    def all_together(self) -> _Together:
        """Pairs of answers about one item, by all pairs of workers."""
        # Of several answers of one worker about an item, the first counts.
        source = self.labels.source.numpy()
        used = np.unique(source, return_index=True)[1]
        item = self.item[used]
        size = np.bincount(item, minlength=self.labels.num_items)
        order = np.random.default_rng(0).permutation(len(size))
        enough = (size * (size - 1) // 2)[order].cumsum() <= _MAX_PAIRS
        first = np.flatnonzero(np.isin(item, order[enough]))
        parts = []
        step = 0
        while len(first):
            step += 1
            first = first[first + step < len(item)]
            first = first[item[first + step] == item[first]]
            parts.append(np.stack([first, first + step]))
        answers = used[np.concatenate([np.zeros((2, 0), dtype=int), *parts], axis=1)]
        # Two answers of one worker about an item say nothing about copies, and neither do those of
        # a worker who always says the same: others agree with it as often as they say that.
        answers = answers[:, self.worker[answers[0]] != self.worker[answers[1]]]
        answers = answers[:, self.varies[self.worker[answers]].all(0)]
        low, high = np.sort(self.worker[answers], axis=0)
        named, pair, common = np.unique(
            low * self.num_workers + high, return_inverse=True, return_counts=True
        )
        workers = np.stack(np.divmod(named, self.num_workers))
        return _Together(answers, pair, workers, common)

    def majority(self) -> Float[np.ndarray, "item class"]:
        """q if all workers are equally good and all classes equally frequent."""
        votes = self.labels.votes().numpy()
        q = votes / votes.sum(1, keepdims=True).clip(1)
        for _ in range(_STEPS):
            # Below chance, the class with the fewest votes would be the likeliest.
            rate = max(rate_of_all(votes, q, _RIGHT, _WRONG), 1.01 / votes.shape[1])
            q = classes_at_rate(votes, 0.0 if self.log_prior is None else self.log_prior, rate)
        return q

    @cached_property
    def varies(self) -> Bool[np.ndarray, " worker"]:
        """Whether each worker gives more than one label."""
        worker = np.unique(np.stack([self.worker, self.label]), axis=1)[0]
        return np.bincount(worker, minlength=self.num_workers) > 1

    def num_who_vary(self) -> int:
        """Number of workers who give more than one label."""
        return int(self.varies.sum())

    def rows(
        self,
        q: Float[np.ndarray, "item class"],
        prior: float = _RIGHT + _WRONG,
        around_all: bool = False,
    ) -> Float[np.ndarray, "worker class label"]:
        """``p(label | class)`` of every worker, given q.

        A row's prior has the weight ``prior``, and the shares of all workers together if it is
        ``around_all``.
        """
        counts = soft_counts(self.matrix, q)
        expected = self.prior + counts.sum(0) if around_all else self.prior
        counts = counts + prior * expected / expected.sum(-1, keepdims=True)
        return counts / counts.sum(-1, keepdims=True)

    def classes(
        self,
        q: Float[np.ndarray, "item class"],
        worker_weights: Float[np.ndarray, " worker"],
        around_all: bool = False,
    ) -> tuple[Float[np.ndarray, "item class"], Float[np.ndarray, "worker class label"]]:
        """q and rows, updated from this q, with answers weighted by w of their workers."""
        rows = self.rows(q, around_all=around_all)
        for _ in range(_STEPS):
            log_shares = self.log_prior
            if log_shares is None:
                log_shares = log_shares_of(q)
            log_rows = worker_weights[:, None, None] * np.log(rows)
            q = states_given(self.matrix, log_shares, log_rows)
            rows = self.rows(q, around_all=around_all)
        return q, rows

    def _agreement(
        self,
        q: Float[np.ndarray, "item state"],
        rows: Float[np.ndarray, "worker state label"],
        worker_weights: Float[np.ndarray, " worker"],
        expected_rows: Float[np.ndarray, "worker state label"],
        by_item: bool = False,
    ) -> Float[np.ndarray, "4 pair"]:
        """How much more often than expected the workers of every pair agree.

        ``rows`` are those from which q was computed; ``expected_rows`` give the expected agreement.
        Returns the number of agreements beyond those expected, its variance, and the variances of
        the answers of one and of the other worker, summed over the common items; ``by_item`` over
        the pairs of all workers instead, for every item.
        """
        answers, pair, workers, common = self.all_together if by_item else self.together
        groups, number = (self.item[answers[0]], len(q)) if by_item else (pair, len(common))
        # States first, since sums over a long last axis are the fast ones.
        said = worker_weights[self.worker, None] * np.log(rows[self.worker, :, self.label])
        named = self.labels.of_source(torch.from_numpy(said)).numpy().T
        log_q = np.log(q.clip(SMALLEST_PROBABILITY)).T[:, self.item]
        spread = (1 - np.square(expected_rows).sum(-1)).T[:, self.worker]
        both = (expected_rows[workers[0]] * expected_rows[workers[1]]).sum(-1).T
        sums = np.zeros((4, number))
        # In parts that fit into the processor's cache.
        size = max(1, _AT_ONCE // q.shape[1])
        for start in range(0, len(pair), size):
            (one, other), of_pair = answers[:, start : start + size], pair[start : start + size]
            group = groups[start : start + size]
            without = log_q[:, one] - named[:, one] - named[:, other]
            without = np.exp(without - without.max(0))
            without /= without.sum(0)
            expected = (without * both[:, of_pair]).sum(0)
            of_answer = (
                (self.label[one] == self.label[other]) - expected,
                expected * (1 - expected),
                (without * spread[:, one]).sum(0),
                (without * spread[:, other]).sum(0),
            )
            sums += np.stack([np.bincount(group, x, number) for x in of_answer])
        return sums

    def worker_weights(
        self,
        q: Float[np.ndarray, "item class"],
        rows: Float[np.ndarray, "worker class label"],
        worker_weights: Float[np.ndarray, " worker"],
    ) -> Float[np.ndarray, " worker"]:
        """w of every worker, updated from the previous ``worker_weights``."""
        beyond, _, own, others = self._agreement(q, rows, worker_weights, self.rows(q, _EXPECTED))
        rho = beyond / np.sqrt(own * others).clip(1e-12)
        chance = 2 * math.log(max(len(worker_weights) - 1, 1))
        noise = chance / np.maximum(np.square(rho) * self.together.common, 1e-12)
        shrunk = (rho * (1 - noise).clip(0)).clip(0, 1)
        of_worker = [
            np.bincount(worker, shrunk, len(worker_weights)) for worker in self.together.workers
        ]
        return 1 / (1 + np.sum(of_worker, axis=0))

    def unexplained(
        self,
        q: Float[np.ndarray, "item state"],
        rows: Float[np.ndarray, "worker state label"],
        worker_weights: Float[np.ndarray, " worker"],
        expected_rows: Float[np.ndarray, "worker state label"] | None = None,
    ) -> float:
        """D; if the states are not classes, ``expected_rows`` are p(label | state)."""
        if expected_rows is None:
            expected_rows = self.rows(q, _EXPECTED)
        beyond, variance, *_ = self._agreement(q, rows, worker_weights, expected_rows)
        return float((beyond / np.sqrt(variance).clip(1e-12)).clip(0, _MAX_ERRORS).sum())

    def shared_of_items(self, q: Float[np.ndarray, "item class"]) -> float:
        """Z, the agreement beyond that expected, over the standard error from its items.

        Parameters
        ----------
        q
            Where the classes of independent workers, whose rows vary around those of all, begin.
        """
        alone = np.ones(self.num_workers)
        q, rows = self.classes(q, alone, around_all=True)
        expected = self.rows(q, _EXPECTED, around_all=True)
        beyond = self._agreement(q, rows, alone, expected, by_item=True)[0]
        return float(beyond.sum() / max(np.linalg.norm(beyond), 1e-12))
