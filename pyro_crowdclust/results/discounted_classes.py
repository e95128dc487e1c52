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

with z_jl the number of agreements beyond those expected, over its standard error. Expected is what
the two say in fact of each class: there the prior of a row counts as one answer, since that by
which classes are found, near the diagonal, expects too little agreement of workers who call a class
by another name. A pair cannot cost more than 2.5 standard errors, since what copies each other can
do so by any amount: with a Gaussian's square the largest family would always win. Discounted
classes begin at the majority vote, and so end at the reading that is next to it.

Where features say something of the classes, ``p(k | x_i)`` stands in place of theta_k, and the
better reading is the one whose answers alone say more of the features (``gain_by_features``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from scipy.special import softmax

from pyro_crowdclust.annotators.confusion import diagonal_concentration
from pyro_crowdclust.annotators.item_trait import ItemTrait
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.results.fitted import Fitted, check_fit
from pyro_crowdclust.training.given import check_class_labels

# Pseudo-answers of a row of a confusion matrix, as of ``ConfusionMatrices``.
_RIGHT, _WRONG = 4.0, 2.0
# The same where agreement is expected: fewer would make workers with few answers expect too much.
_EXPECTED = 1.0
# Two workers with fewer common items say nothing of each other.
_LEAST_COMMON = 30
# Fewer workers who do not always say the same can be explained as independent ones.
_LEAST_WORKERS = 4
_MOST_ERRORS = 2.5
# So many pairs of answers tell copies from chance; of more, items are drawn at random.
_MOST_PAIRS = 2_000_000
# Numbers in a table that stays in the processor's cache.
_AT_ONCE = 2**18
_DISCOUNTS, _STEPS = 4, 20


@dataclass(frozen=True, eq=False)
class DiscountedClasses:
    """Classes from answers that count as far as they are voices of their own.

    Attributes
    ----------
    answers
        The labels, and which workers have enough common items to be compared.
    probabilities
        q(y_i = k).
    rows
        ``p(label | class)``.
    worth
        w, as how many independent workers each counts.
    """

    answers: _Answers
    probabilities: Float[np.ndarray, "item class"]
    rows: Float[np.ndarray, "worker class label"]
    worth: Float[np.ndarray, " worker"]

    @property
    def data(self) -> CrowdData:
        """The items and their labels."""
        return self.answers.data

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
        return self.answers.unexplained(self.probabilities, self.rows, self.worth)


def discount_copies(
    data: CrowdData, by_features: Float[np.ndarray, "item class"] | None = None
) -> DiscountedClasses:
    """Classes from the majority vote on, with answers of workers who copy each other discounted.

    Time is linear in the number of pairs of answers about one item, up to two million of these.

    Parameters
    ----------
    data
        Items with class labels.
    by_features
        ``p(k | x_i)`` of every item, where features say something of the classes.

    Raises
    ------
    ValueError
        If data are no ``CrowdData``, or have no class labels.

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
    check_class_labels(data)
    answers = _Answers(data, by_features)
    worth = np.ones(data.num_workers)
    q = answers.majority()
    rows = answers.rows(q)
    for _ in range(_DISCOUNTS):
        worth = answers.worth(q, rows, worth)
        q, rows = answers.classes(q, worth)
    return DiscountedClasses(answers, q, rows, worth)


def weight_of_copies(
    discounted: DiscountedClasses,
    probabilities: Float[np.ndarray, "item class"],
    trait: Fitted | None = None,
) -> float:
    """How much discounted classes are to be believed beside others that know of no copies.

    ``tanh(gain)`` of the gain in D, and 0 where there is none: the weight of the better reading
    less that of the other, if every standard error counts two nats. The other reading is that of
    independent workers near ``probabilities`` or that of a fit with ``ItemTrait``, whichever
    explains more: workers who err about the same hard items are no copies. It is 0, too, where
    fewer than four workers do not always say the same: three independent ones of two classes have
    seven parameters, as many as the eight triples of their answers have free frequencies, and leave
    nothing to tell copies by.
    """
    answers, alone = discounted.answers, np.ones(len(discounted.worth))
    if answers.num_who_vary() < _LEAST_WORKERS:
        return 0.0
    unexplained = [answers.unexplained(*answers.classes(probabilities, alone), alone)]
    if trait is not None:
        log_shares, rows = trait.model.annotators.at_points(trait.guide.posteriors)
        points = answers.states(log_shares, np.log(rows.clip(1e-300)))
        unexplained.append(answers.unexplained(points, rows, alone, rows))
    return max(0.0, math.tanh(min(unexplained) - discounted.unexplained))


def gain_by_features(
    discounted: DiscountedClasses,
    probabilities: Float[np.ndarray, "item class"],
    by_features: Float[np.ndarray, "item class"],
) -> float:
    """How much likelier features are by answers that are discounted than by independent ones.

        sum_i log sum_k p(k | x_i) p_w(k | a_i) / theta_k - the same with w = 1 of all workers

    in nats, over the items with answers: by Bayes' theorem ``p(x_i | a_i) / p(x_i)``, with the
    classes that the answers name alone. Copies are sure of what features deny.

    Parameters
    ----------
    discounted
        Classes found with ``by_features``.
    probabilities
        q(y_i = k) of a fit that takes all workers for independent.
    by_features
        ``p(k | x_i)``.
    """
    answers, alone = discounted.answers, np.ones(len(discounted.worth))
    asked = np.unique(answers.item)

    def log_ratios(
        q: Float[np.ndarray, "item class"],
        rows: Float[np.ndarray, "worker class label"],
        worth: Float[np.ndarray, " worker"],
    ) -> Float[np.ndarray, " asked"]:
        log_shares = _log_shares(q)
        named = answers.states(log_shares, worth[:, None, None] * np.log(rows))
        ratios = (by_features / np.exp(log_shares) * named).sum(1)[asked]
        return np.log(ratios.clip(1e-300))

    found = log_ratios(discounted.probabilities, discounted.rows, discounted.worth)
    return float((found - log_ratios(*answers.classes(probabilities, alone), alone)).sum())


def discounted_class_probabilities(result: Fitted) -> pd.DataFrame:
    """``result.class_probabilities``, averaged with discounted ones as far as copies explain more.

    Where nobody copies, they are those of the result.

    Raises
    ------
    ValueError
        For what is no fit, and a fit without class labels.
    """
    check_fit(result)
    check_class_labels(result.data)
    frame = result.class_probabilities
    discounted = discount_copies(result.data)
    trait = result if isinstance(result.model.annotators, ItemTrait) else None
    weight = weight_of_copies(discounted, result.probabilities, trait)
    return (1 - weight) * frame + weight * discounted.class_probabilities.to_numpy()


def _log_shares(q: Float[np.ndarray, "item class"]) -> Float[np.ndarray, " class"]:
    """log theta, as if one item more were of each class."""
    return np.asarray(np.log((q.sum(0) + 1) / (len(q) + q.shape[1])))


class _Together(NamedTuple):
    """Pairs of answers about one item, of workers who have enough of these.

    Attributes
    ----------
    answers
        The two answers.
    pair
        Number of the two workers.
    workers
        Who they are.
    common
        How many pairs of answers they have.
    """

    answers: Int[np.ndarray, "2 both"]
    pair: Int[np.ndarray, " both"]
    workers: Int[np.ndarray, "2 pair"]
    common: Int[np.ndarray, " pair"]


class _Answers:
    """The answers, what classes and workers follow from each other, and who answered with whom."""

    def __init__(
        self, data: CrowdData, by_features: Float[np.ndarray, "item class"] | None = None
    ) -> None:
        assert data.class_labels is not None  # as the callers have seen
        self.data = data
        self.log_prior = None if by_features is None else np.log(by_features.clip(1e-12))
        self.labels: LabelMatrix = data.class_labels.of_items(torch.arange(data.num_items))
        self.item, self.worker, self.label = (
            part.numpy() for part in (self.labels.item, self.labels.worker, self.labels.label)
        )
        self.matrix: Any = self.labels.matrix
        self.shape = data.num_workers, data.num_classes, data.num_classes
        self.prior = diagonal_concentration(data.num_classes, _RIGHT, _WRONG).numpy()

    @cached_property
    def together(self) -> _Together:
        """Answers of two workers about one item, of workers who have enough of these."""
        size = np.asarray(self.labels.counts)
        order = np.random.default_rng(0).permutation(len(size))
        enough = (size * (size - 1) // 2)[order].cumsum() <= _MOST_PAIRS
        first = np.flatnonzero(np.isin(self.item, order[enough]))
        parts = []
        step = 0
        while len(first):
            step += 1
            first = first[first + step < len(self.item)]
            first = first[self.item[first + step] == self.item[first]]
            parts.append(np.stack([first, first + step]))
        answers = np.concatenate([np.zeros((2, 0), dtype=int), *parts], axis=1)
        # Whoever answered twice about an item is nobody's copy for it.
        answers = answers[:, self.worker[answers[0]] != self.worker[answers[1]]]
        low, high = np.sort(self.worker[answers], axis=0)
        named, pair, common = np.unique(
            low * self.shape[0] + high, return_inverse=True, return_counts=True
        )
        kept = common >= _LEAST_COMMON
        number = np.cumsum(kept) - 1
        workers = np.stack(np.divmod(named[kept], self.shape[0]))
        is_kept = kept[pair]
        return _Together(answers[:, is_kept], number[pair[is_kept]], workers, common[kept])

    def majority(self) -> Float[np.ndarray, "item class"]:
        """q where all workers are equally good and all classes equally frequent."""
        votes = self.labels.votes().numpy()
        q = votes / votes.sum(1, keepdims=True).clip(1)
        for _ in range(_STEPS):
            right = ((q * votes).sum() + _RIGHT) / (votes.sum() + _RIGHT + _WRONG)
            # Whose answers are worse than chance would make the least named class the likeliest.
            right = max(right, 1.01 / votes.shape[1])
            of_votes = votes * np.log(right * (votes.shape[1] - 1) / (1 - right))
            q = softmax(of_votes if self.log_prior is None else of_votes + self.log_prior, axis=1)
        return q

    def num_who_vary(self) -> int:
        """How many workers do not always say the same."""
        said = np.unique(np.stack([self.worker, self.label]), axis=1)[0]
        return int((np.bincount(said) > 1).sum())

    def rows(
        self, q: Float[np.ndarray, "item class"], prior: float = _RIGHT + _WRONG
    ) -> Float[np.ndarray, "worker class label"]:
        """``p(label | class)`` of every worker where these are the classes.

        The prior of a row counts as so many answers.
        """
        share = self.prior / self.prior.sum(-1, keepdims=True)
        counts = (self.matrix.T @ q).reshape(self.shape).swapaxes(1, 2) + prior * share
        return counts / counts.sum(-1, keepdims=True)

    def classes(
        self, q: Float[np.ndarray, "item class"], worth: Float[np.ndarray, " worker"]
    ) -> tuple[Float[np.ndarray, "item class"], Float[np.ndarray, "worker class label"]]:
        """q and rows from q on, every answer counting w of its worker."""
        rows = self.rows(q)
        for _ in range(_STEPS):
            log_shares = self.log_prior
            if log_shares is None:
                log_shares = _log_shares(q)
            q = self.states(log_shares, worth[:, None, None] * np.log(rows))
            rows = self.rows(q)
        return q, rows

    def states(
        self,
        log_shares: Float[np.ndarray, "*item state"],
        log_rows: Float[np.ndarray, "worker state label"],
    ) -> Float[np.ndarray, "item state"]:
        """q of the states of items, such as their classes."""
        of_answer = log_rows.swapaxes(1, 2).reshape(-1, log_shares.shape[-1])
        return softmax(log_shares + self.matrix @ of_answer, axis=1)

    def _agreement(
        self,
        q: Float[np.ndarray, "item state"],
        rows: Float[np.ndarray, "worker state label"],
        worth: Float[np.ndarray, " worker"],
        said: Float[np.ndarray, "worker state label"],
    ) -> Float[np.ndarray, "4 pair"]:
        """How much more often than expected the workers of every pair agree.

        Of the rows q was made, and what is said in each state is expected. Returned: agreements
        beyond those expected, the variance of their number, and the variances of the answers of one
        and of the other worker, summed over the common items.
        """
        answers, pair, workers, common = self.together
        # States first, since sums over a long last axis are the fast ones.
        named = (worth[self.worker, None] * np.log(rows[self.worker, :, self.label])).T
        log_q = np.log(q.clip(1e-300)).T[:, self.item]
        spread = (1 - np.square(said).sum(-1)).T[:, self.worker]
        both = (said[workers[0]] * said[workers[1]]).sum(-1).T
        sums = np.zeros((4, len(common)))
        # A part at a time, which stays in the processor's cache.
        size = max(1, _AT_ONCE // q.shape[1])
        for start in range(0, len(pair), size):
            (one, other), of_pair = answers[:, start : start + size], pair[start : start + size]
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
            sums += np.stack([np.bincount(of_pair, x, len(common)) for x in of_answer])
        return sums

    def worth(
        self,
        q: Float[np.ndarray, "item class"],
        rows: Float[np.ndarray, "worker class label"],
        worth: Float[np.ndarray, " worker"],
    ) -> Float[np.ndarray, " worker"]:
        """w of every worker, from the one before."""
        beyond, _, own, others = self._agreement(q, rows, worth, self.rows(q, _EXPECTED))
        rho = beyond / np.sqrt(own * others).clip(1e-12)
        chance = 2 * math.log(max(len(worth) - 1, 1))
        noise = chance / np.maximum(np.square(rho) * self.together.common, 1e-12)
        shrunk = (rho * (1 - noise).clip(0)).clip(0, 1)
        of_worker = [np.bincount(worker, shrunk, len(worth)) for worker in self.together.workers]
        return 1 / (1 + np.sum(of_worker, axis=0))

    def unexplained(
        self,
        q: Float[np.ndarray, "item state"],
        rows: Float[np.ndarray, "worker state label"],
        worth: Float[np.ndarray, " worker"],
        said: Float[np.ndarray, "worker state label"] | None = None,
    ) -> float:
        """D, of states that are no classes by what is said in each of them."""
        said = self.rows(q, _EXPECTED) if said is None else said
        beyond, variance, *_ = self._agreement(q, rows, worth, said)
        return float((beyond / np.sqrt(variance).clip(1e-12)).clip(0, _MOST_ERRORS).sum())
