"""Reads fits of the features alone by answers of which none of them has seen any.

A *reading* of a fit is a weight tau of its features and a partition of its components into
clusters. Under it two items share a cluster with probability

    s_ij = sum_c q_tau(c_i = c) q_tau(c_j = c),   q_tau(c_i = c) = sum_{k in c} q_tau(z_i = k),
    q_tau(z_i = k) propto (pi_k p(x_i | k))^tau

As the fits have not seen the answers, the evidence of a reading needs no split. The rates of every
worker m are integrated out, under the prior Beta(2, 1):

    p(L | reading) = prod_m E[prod_{n of m} s_n p(L_n | same) + (1 - s_n) p(L_n | different)]

A few answers never single out one reading. Their best prediction is the average e_ij of s_ij over
the readings of all candidates, by their evidence. That reading is used which comes nearest to it:
the one with the largest mean of ``e log s + (1 - e) log(1 - s)`` over pairs of items. A reading
that is surer than the average pays for it, and so few answers lead to small weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.special import logsumexp, softmax
from torch import Tensor, nn

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.errors import count
from pyro_crowdclust.interface.candidates.weights import ALL_WEIGHTS
from pyro_crowdclust.interface.holding_out.parts import MIN_PROBABILITY
from pyro_crowdclust.minibatches import items_alone
from pyro_crowdclust.mixture.overlap import groups_by_overlap

# Which components are near each other shows at this weight of the features.
_NEAR_WEIGHT = 0.35
# Share of the prior probability of joins that ignores how near the clusters are.
_FAR = 0.2
# Points at which each of the two rates is integrated.
_POINTS = 12
# Joins are tried for the pairs of clusters that the answers are most about, and these are compared
# by the evidence that come first at the rates before the join.
_MAX_JOINS = 50
_JOINS_KEPT = 4
# Further joins are not tried once readings are so much less probable than the best, in nats.
_HOPELESS = 10.0
# More answers take too long to read.
_MAX_ANSWERS = 2000
# Readings are compared on at most this many pairs of the items with answers.
_MAX_PAIRS = 2000
# The candidate with the best ELBO is kept unless another comes nearer by this, in nats a pair.
_MIN_GAIN = 0.01


@dataclass(frozen=True)
class Reading:
    """How a fit of features is read.

    Attributes
    ----------
    weight
        tau.
    group
        For every component, the number of one component of its cluster.
    log_probability
        Log of its prior times its evidence, up to a constant.
    same
        s of the pairs on which readings are compared.
    """

    weight: float
    group: Int[Tensor, " component"]
    log_probability: float
    same: Float[np.ndarray, " pair"]

    def score(self, expected: Float[np.ndarray, " pair"]) -> float:
        """The mean of ``e log s + (1 - e) log(1 - s)``."""
        same = self.same.clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
        return float((expected * np.log(same) + (1 - expected) * np.log1p(-same)).mean())

    @property
    def sentence(self) -> str:
        """The reading in words."""
        number, clusters = len(self.group), len(self.group.unique())
        return (
            "by these answers, of which no candidate has seen any, features count "
            f"{self.weight:g}, and {count(number, 'component')} are {count(clusters, 'cluster')}; "
            "it was not tested whether they predict others better than chance"
        )


class UnseenAnswers:
    """Answers, and fits of the features alone that are read by them.

    Parameters
    ----------
    data
        Items with features, and answers "same" and "different".
    candidates
        Fits to the features alone; those with a single cluster cannot be read.
    seed
        Seed of the pairs on which readings are compared.
    """

    def __init__(self, data: CrowdData, candidates: Sequence[Fitted], seed: int) -> None:
        answers = data.needed_answers
        self.data, self.items = data, answers.items.unique()
        self.left, self.right = (
            torch.searchsorted(self.items, one).numpy() for one in (answers.left, answers.right)
        )
        first, second = np.triu_indices(len(self.items), 1)
        some = np.random.default_rng(seed).permutation(len(first))[:_MAX_PAIRS]
        self.first, self.second = first[some], second[some]
        said, worker = answers.label.numpy() == 1, answers.worker.numpy()
        # Quantiles of Beta(2, 1).
        rates = np.sqrt((np.arange(_POINTS) + 0.5) / _POINTS)
        sensitivity, specificity = (each.ravel() for each in np.meshgrid(rates, rates))
        self.if_same = np.where(said[:, None], sensitivity, 1 - sensitivity)
        self.if_different = np.where(said[:, None], 1 - specificity, specificity)
        self.of_workers = [worker == one for one in np.unique(worker)]
        self.readings = [list(self.readings_of(one)) for one in candidates]
        self.expected = average([one for of_fit in self.readings for one in of_fit])

    @classmethod
    def of(cls, data: CrowdData, candidates: Sequence[Fitted], seed: int) -> UnseenAnswers | None:
        """Answers by which the candidates can be read; None if they cannot.

        That is so if answers are grades, or more than 2,000; if all are the same, as rates of
        workers then explain them, whatever the items are; or if all candidates have a single
        cluster.
        """
        answers = data.answers
        if answers is None or len(data.grade_ids) or len(answers.label) > _MAX_ANSWERS:
            return None
        if len(answers.label.unique()) == 1:
            return None
        several = any(_num_clusters(one) > 1 for one in candidates)
        return cls(data, candidates, seed) if several else None

    def better_than(self, kept: int) -> int:
        """The candidate with the reading that comes nearest to the average.

        Parameters
        ----------
        kept
            Place of the candidate that is kept if no other comes nearer by .01 nats a pair.

        Returns
        -------
        Its place among the candidates.
        """
        scores = [
            max((one.score(self.expected) for one in of_fit), default=-math.inf)
            for of_fit in self.readings
        ]
        best = int(np.argmax(scores))
        return best if scores[best] > scores[kept] + _MIN_GAIN else kept

    def nearest(self, fitted: Fitted) -> Reading | None:
        """The reading of a fit that comes nearest to the average; None if it has one cluster."""
        readings = self.readings_of(fitted)
        return max(readings, key=lambda one: one.score(self.expected), default=None)

    def log_evidence_of(self, result: Fitted) -> float:
        """``log p(L | s)``, with the probabilities of a result that knows the answers as s."""
        answers = self.data.needed_answers
        same = result.same_cluster_by_position(answers.left.numpy(), answers.right.numpy())
        return float(self.log_evidence(same[None])[0])

    def log_evidence(
        self, same: Float[np.ndarray, "reading answer"]
    ) -> Float[np.ndarray, " reading"]:
        """``log p(L | reading)``, from s of every answer.

        Parameters
        ----------
        same
            s_n.
        """
        found = np.zeros(len(same))
        for own in self.of_workers:
            by_rates = self._log_by_rates(same[:, own, None], own)
            found += logsumexp(by_rates, 1) - math.log(by_rates.shape[1])
        return found

    def _log_by_rates(
        self, same: Float[np.ndarray, "reading own 1"], own: Bool[np.ndarray, " answer"]
    ) -> Float[np.ndarray, "reading rates"]:
        """``log p(L | reading, rates)`` of one worker's answers, at all points of the rates."""
        return np.log(same * self.if_same[own] + (1 - same) * self.if_different[own]).sum(1)

    def _log_evidence_nearby(
        self, same: Float[np.ndarray, " answer"], others: Float[np.ndarray, "reading answer"]
    ) -> Float[np.ndarray, " reading"]:
        """``log p(L | reading)`` approximately, at the rates that one reading makes of the workers.

        Parameters
        ----------
        same
            s of that reading.
        others
            s of readings like it.
        """
        found = np.zeros(len(others))
        for own in self.of_workers:
            rates = softmax(self._log_by_rates(same[None, own, None], own)[0])
            if_same, if_different = self.if_same[own] @ rates, self.if_different[own] @ rates
            found += np.log(others[:, own] * (if_same - if_different) + if_different).sum(1)
        return found

    def readings_of(self, fitted: Fitted) -> Iterator[Reading]:
        """All weights of the features, with clusters joined one after the other.

        The next two clusters to be joined are those of the most probable reading. A join of
        clusters a and b has a share of the prior probability that is in part the same for all
        pairs, and in part proportional to ``sum_i q_ia q_ib / sqrt(sum_i q_ia sum_i q_ib)`` at a
        small weight of the features: clusters near each other are more probably one.

        Parameters
        ----------
        fitted
            A fit to the features alone. It has no readings if it has a single cluster.
        """
        if _num_clusters(fitted) == 1:
            return
        batch = items_alone(self.data, self.items)
        logits = fitted.guide.infer(batch.to(fitted.device, torch.float64)).logits
        near = fitted.component_probabilities.double().numpy(force=True) ** _NEAR_WEIGHT
        near /= near.sum(1, keepdims=True)
        for weight in ALL_WEIGHTS:
            q = softmax(weight * logits.double().numpy(force=True), 1)
            yield from self._joined(weight, q, near, _groups(fitted))

    def _joined(
        self,
        weight: float,
        q: Float[np.ndarray, "item component"],
        near: Float[np.ndarray, "any component"],
        group: Int[Tensor, " component"],
    ) -> Iterator[Reading]:
        """The readings at one weight, beginning with these groups of components."""
        log_prior, best, answered = 0.0, -math.inf, (self.left, self.right)
        found = float(self.log_evidence(_together(q, group, *answered)[None])[0])
        while True:
            best = max(best, log_prior + found)
            same = _together(q, group, self.first, self.second)
            yield Reading(weight, group, log_prior + found, same)
            names = group.unique()
            if len(names) == 1 or log_prior + found < best - _HOPELESS:
                return
            one, other = np.triu_indices(len(names), 1)
            left, right = (_clusters(q, group)[ends] for ends in answered)
            gained = left[:, one] * right[:, other] + left[:, other] * right[:, one]
            tried = np.argsort(-gained.sum(0), kind="stable")[:_MAX_JOINS]
            log_shares = np.log(_shares(_clusters(near, group), one, other)[tried])
            together = _together(q, group, *answered)
            after = together + gained[:, tried].T
            likely = log_shares + self._log_evidence_nearby(together, after)
            kept = np.argsort(-likely, kind="stable")[:_JOINS_KEPT]
            evidence = self.log_evidence(after[kept])
            likeliest = int((evidence + log_shares[kept]).argmax())
            place = kept[likeliest]
            found, log_prior = float(evidence[likeliest]), log_prior + float(log_shares[place])
            joined = tried[place]
            group = torch.where(group == names[one[joined]], names[other[joined]], group)


def average(readings: Sequence[Reading]) -> Float[np.ndarray, " pair"]:
    """The mean e of s over readings, by their probability."""
    weights = softmax([one.log_probability for one in readings])
    return weights @ np.stack([one.same for one in readings])


def _groups(fitted: Fitted) -> Int[Tensor, " component"]:
    """The clusters of a fit of features alone (``with_overlaps_joined``)."""
    return groups_by_overlap(fitted.component_probabilities)


def _num_clusters(fitted: Fitted) -> int:
    return len(_groups(fitted).unique())


def _clusters(
    q: Float[np.ndarray, "item component"], group: Int[Tensor, " component"]
) -> Float[np.ndarray, "item cluster"]:
    """q(c) of every item, in the order of the clusters' numbers."""
    owner = nn.functional.one_hot(group.unique(return_inverse=True)[1])
    return q @ owner.double().numpy(force=True)


def _together(
    q: Float[np.ndarray, "item component"],
    group: Int[Tensor, " component"],
    left: Int[np.ndarray, " pair"],
    right: Int[np.ndarray, " pair"],
) -> Float[np.ndarray, " pair"]:
    """s of pairs of items."""
    clusters = _clusters(q, group)
    return (clusters[left] * clusters[right]).sum(1)


def _shares(
    near: Float[np.ndarray, "any cluster"],
    one: Int[np.ndarray, " pair"],
    other: Int[np.ndarray, " pair"],
) -> Float[np.ndarray, " pair"]:
    """Prior probability of joining each of these pairs of clusters, given that two are joined."""
    sizes = np.sqrt(near.sum(0))
    overlap = (near.T @ near)[one, other] / (sizes[one] * sizes[other]).clip(MIN_PROBABILITY)
    return (1 - _FAR) * overlap / overlap.sum().clip(MIN_PROBABILITY) + _FAR / len(one)
