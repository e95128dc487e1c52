"""Classes where some workers copy others: an answer counts as far as it is a voice of its own.

    q(y_i = k)  propto  theta_k prod_j p(a_ij | k)^w_j            w_j = 1 / (1 + sum_l rho_jl)

rho_jl is how much more often workers j and l agree than they would if their answers were
independent given the class, over the standard deviation of that: of F copies each counts 1 / F.
In every sum the class of an item is what the answers of all others say of it. What M others may
have in common by chance is shrunk to zero: rho_jl (1 - 2 log M / (n_jl rho_jl^2)), the positive
part, with n_jl common items.

Copies and good workers look alike: two who always agree may be one voice, while all others are
right; or both right, while all others err about the same items. Either way some pairs of workers
agree more often than the classes explain. The better reading leaves fewer such pairs:

    D = sum_{j<l} min(max(z_jl, 0), 2.5)

with z_jl the number of agreements beyond those expected, over its standard error. A pair cannot
cost more than 2.5 standard errors, since what copies each other can do so by any amount: with a
Gaussian's square the largest family would always win. Discounted classes begin at the majority
vote, and so end at the reading that is next to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from scipy.special import softmax

from pyro_crowdclust.annotators.confusion import diagonal_concentration
from pyro_crowdclust.annotators.item_trait import ItemTrait
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.results.fitted import Fitted

# Pseudo-answers of a row of a confusion matrix, as of ``ConfusionMatrices``.
_RIGHT, _WRONG = 4.0, 2.0
# Two workers with fewer common items say nothing of each other.
_LEAST_COMMON = 30
_MOST_ERRORS = 2.5
_DISCOUNTS, _STEPS = 4, 20


@dataclass(frozen=True, eq=False)
class DiscountedClasses:
    """Classes from answers that count as far as they are voices of their own.

    Attributes
    ----------
    data
        The items and their labels.
    probabilities
        q(y_i = k).
    rows
        ``p(label | class)``.
    worth
        w, as how many independent workers each counts.
    """

    data: CrowdData
    probabilities: Float[np.ndarray, "item class"]
    rows: Float[np.ndarray, "worker class label"]
    worth: Float[np.ndarray, " worker"]

    @property
    def class_probabilities(self) -> pd.DataFrame:
        """The probabilities by the user's ids of items and classes."""
        columns = self.data.class_ids.rename("class")
        return pd.DataFrame(self.probabilities, self.data.item_ids.rename("item"), columns)

    @property
    def confusion(self) -> pd.DataFrame:
        """``p(label | class)`` by the user's ids of workers and classes."""
        workers, classes = self.data.worker_ids, self.data.class_ids
        names = ["worker", "class", "label"]
        index = pd.MultiIndex.from_product([workers, classes, classes], names=names)
        return pd.DataFrame({"mean": self.rows.ravel()}, index)

    def answer_probabilities(
        self,
        item: Int[np.ndarray, " answer"],
        worker: Int[np.ndarray, " answer"],
        label: Int[np.ndarray, " answer"],
    ) -> Float[np.ndarray, "answer class"]:
        """``p(label | class)`` of answers, by positions in ``data``."""
        return self.rows[worker, :, label]

    @cached_property
    def unexplained(self) -> float:
        """D, by how many standard errors pairs of workers agree beyond what classes explain."""
        return _Answers(self.data).unexplained(self.probabilities, self.rows, self.worth)


def discount_copies(data: CrowdData) -> DiscountedClasses:
    """Classes from the majority vote on, with answers of workers who copy each other discounted.

    Time is linear in the number of pairs of answers about one item.

    Parameters
    ----------
    data
        Items with class labels.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random(400) < 0.3
    >>> says = truth[:, None] ^ (rng.random((400, 5)) < 0.2)
    >>> says[:, 1] = says[:, 0]
    >>> item, worker = np.indices(says.shape)
    >>> said = {"item": item.ravel(), "worker": worker.ravel(), "label": says.ravel()}
    >>> discount_copies(CrowdData(None, labels=said)).worth.round(1).tolist()
    [0.5, 0.5, 1.0, 1.0, 1.0]
    """
    answers = _Answers(data)
    worth = np.ones(data.num_workers)
    q = answers.majority()
    rows = answers.rows(q)
    for _ in range(_DISCOUNTS):
        worth = answers.worth(q, rows, worth)
        q, rows = answers.classes(q, worth)
    return DiscountedClasses(data, q, rows, worth)


def independent_classes(
    data: CrowdData, probabilities: Float[np.ndarray, "item class"]
) -> DiscountedClasses:
    """Classes near ``probabilities`` for workers of whom each is a voice of its own."""
    worth = np.ones(data.num_workers)
    return DiscountedClasses(data, *_Answers(data).classes(probabilities, worth), worth)


def weight_of_copies(
    discounted: DiscountedClasses,
    probabilities: Float[np.ndarray, "item class"],
    trait: Fitted | None = None,
) -> float:
    """How much discounted classes are to be believed beside others that know of no copies.

    ``tanh(gain)`` of the gain in D, and 0 where there is none: the weight of the better reading
    less that of the other, if every standard error counts two nats. The other reading is that of
    independent workers near ``probabilities`` or that of a fit with ``ItemTrait``, whichever
    explains more: workers who err about the same hard items are no copies.
    """
    unexplained = independent_classes(discounted.data, probabilities).unexplained
    if trait is not None:
        answers = _Answers(discounted.data)
        log_shares, rows = trait.model.annotators.at_points(trait.guide.posteriors)
        points = answers.states(log_shares, np.log(rows.clip(1e-300)))
        worth = np.ones(len(rows))
        unexplained = min(unexplained, answers.unexplained(points, rows, worth))
    return max(0.0, math.tanh(unexplained - discounted.unexplained))


def discounted_class_probabilities(result: Fitted) -> pd.DataFrame:
    """``result.class_probabilities``, averaged with discounted ones as far as copies explain more.

    Where nobody copies, they are those of the result.
    """
    frame = result.class_probabilities
    discounted = discount_copies(result.data)
    trait = result if isinstance(result.model.annotators, ItemTrait) else None
    weight = weight_of_copies(discounted, result.probabilities, trait)
    return (1 - weight) * frame + weight * discounted.class_probabilities.to_numpy()


class _Answers:
    """The answers, and what classes and workers follow from each other."""

    def __init__(self, data: CrowdData) -> None:
        assert data.class_labels is not None  # as the callers have seen
        self.labels: LabelMatrix = data.class_labels.of_items(torch.arange(data.num_items))
        self.item, self.worker, self.label = (
            part.numpy() for part in (self.labels.item, self.labels.worker, self.labels.label)
        )
        self.matrix: Any = self.labels.matrix
        self.shape = data.num_workers, data.num_classes, data.num_classes
        self.prior = diagonal_concentration(data.num_classes, _RIGHT, _WRONG).numpy()

    def majority(self) -> Float[np.ndarray, "item class"]:
        """q where all workers are equally good and all classes equally frequent."""
        votes = self.labels.votes().numpy()
        q = votes / votes.sum(1, keepdims=True).clip(1)
        for _ in range(_STEPS):
            right = ((q * votes).sum() + _RIGHT) / (votes.sum() + _RIGHT + _WRONG)
            # Whose answers are worse than chance would make the least named class the likeliest.
            right = max(right, 1.01 / votes.shape[1])
            q = softmax(votes * np.log(right * (votes.shape[1] - 1) / (1 - right)), axis=1)
        return q

    def rows(self, q: Float[np.ndarray, "item class"]) -> Float[np.ndarray, "worker class label"]:
        """``p(label | class)`` of every worker where these are the classes."""
        counts = (self.matrix.T @ q).reshape(self.shape).swapaxes(1, 2) + self.prior
        return counts / counts.sum(-1, keepdims=True)

    def classes(
        self, q: Float[np.ndarray, "item class"], worth: Float[np.ndarray, " worker"]
    ) -> tuple[Float[np.ndarray, "item class"], Float[np.ndarray, "worker class label"]]:
        """q and rows from q on, every answer counting w of its worker."""
        rows = self.rows(q)
        for _ in range(_STEPS):
            log_shares = np.log((q.sum(0) + 1) / (len(q) + q.shape[1]))
            q = self.states(log_shares, worth[:, None, None] * np.log(rows))
            rows = self.rows(q)
        return q, rows

    def states(
        self,
        log_shares: Float[np.ndarray, " state"],
        log_rows: Float[np.ndarray, "worker state label"],
    ) -> Float[np.ndarray, "item state"]:
        """q of the states of items, such as their classes."""
        of_answer = log_rows.swapaxes(1, 2).reshape(-1, len(log_shares))
        return softmax(log_shares + self.matrix @ of_answer, axis=1)

    def _agreement(
        self,
        q: Float[np.ndarray, "item state"],
        rows: Float[np.ndarray, "worker state label"],
        worth: Float[np.ndarray, " worker"],
    ) -> Iterator[tuple[int, Float[np.ndarray, "5 worker"]]]:
        """What every worker with enough answers has in common with each later one.

        Rows: common items, agreements beyond those expected, the variance of their number, and the
        variances of the own answers and of the other's, summed over the common items.
        """
        named = worth[self.worker, None] * np.log(rows[self.worker, :, self.label])
        log_q = np.log(q.clip(1e-300))
        spread = 1 - np.square(rows).sum(-1)
        starts = self.matrix.indptr
        counts = np.bincount(self.worker, minlength=self.shape[0])
        of_worker = np.split(np.argsort(self.worker, kind="stable"), np.cumsum(counts)[:-1])
        for worker in np.flatnonzero(counts >= _LEAST_COMMON):
            own = of_worker[worker]
            # All answers about the items of this worker, beside the worker's own to the item.
            sizes = np.diff(starts)[self.item[own]]
            mine = np.repeat(own, sizes)
            first = starts[self.item[own]] - (np.cumsum(sizes) - sizes)
            other = np.repeat(first, sizes) + np.arange(len(mine))
            is_later = self.worker[other] > worker
            mine, other = mine[is_later], other[is_later]
            whom = self.worker[other]
            without = softmax(log_q[self.item[mine]] - named[mine] - named[other], axis=1)
            both = (rows[worker] * rows).sum(-1)
            expected = (without * both[whom]).sum(1)
            of_answer = (
                np.ones(len(mine)),
                (self.label[mine] == self.label[other]) - expected,
                expected * (1 - expected),
                without @ spread[worker],
                (without * spread[whom]).sum(1),
            )
            yield int(worker), np.stack([np.bincount(whom, x, self.shape[0]) for x in of_answer])

    def worth(
        self,
        q: Float[np.ndarray, "item state"],
        rows: Float[np.ndarray, "worker state label"],
        worth: Float[np.ndarray, " worker"],
    ) -> Float[np.ndarray, " worker"]:
        """w of every worker, from the one before."""
        shared = np.zeros(len(worth))
        chance = 2 * math.log(max(len(worth) - 1, 1))
        for worker, (common, beyond, _, own, others) in self._agreement(q, rows, worth):
            rho = beyond / np.sqrt(own * others).clip(1e-12)
            noise = chance / np.maximum(np.square(rho) * common, 1e-12)
            shrunk = np.where(common >= _LEAST_COMMON, rho * (1 - noise).clip(0), 0).clip(0, 1)
            shared[worker] += shrunk.sum()
            shared += shrunk
        return 1 / (1 + shared)

    def unexplained(
        self,
        q: Float[np.ndarray, "item state"],
        rows: Float[np.ndarray, "worker state label"],
        worth: Float[np.ndarray, " worker"],
    ) -> float:
        """D."""
        total = 0.0
        for _, (common, beyond, variance, *_) in self._agreement(q, rows, worth):
            z = (beyond / np.sqrt(variance).clip(1e-12))[common >= _LEAST_COMMON]
            total += z.clip(0, _MOST_ERRORS).sum()
        return total
