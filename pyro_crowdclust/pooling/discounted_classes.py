"""Classes where some workers copy others: their answers count only as far as they are independent.

    q(y_i = k)  propto  theta_k prod_j p(a_ij | k)^w_j            w_j = 1 / (1 + sum_l rho_jl)

The correlation rho_jl is the number of agreements of workers j and l beyond those expected if their
answers were independent given the class, over the geometric mean of the variances of their answers.
It is 1 for copies, so that each of F copies counts 1 / F. The class of an item is inferred from the
answers of all workers other than j and l. Correlations that may occur by chance among M other
workers are shrunk to zero: the positive part of rho_jl (1 - 2 log M / (n_jl rho_jl^2)), with n_jl
common items.

Copies and good workers look similar: if two workers always agree, either they copy each other and
all others are right, or both are right and all others err about the same items. Either way some
pairs of workers agree more often than the classes explain. The better explanation leaves fewer such
pairs, that is, it has the smaller

    D = sum_{j<l} min(max(z_jl, 0), 2.5)

with z_jl the number of agreements beyond those expected, over its standard error. Expectations come
from the answers that the two workers give in each class, with a prior of one answer per row. (The
prior with which classes are found has more weight near the diagonal. It would expect too little
agreement of workers who confuse classes in the same way.) A pair adds at most 2.5: the agreement of
copies has no limit, so that with squares, as of a Gaussian, the largest family would always win.
The iteration starts from the majority vote, so it ends at an explanation close to that.

If features are informative about the classes, ``p(k | x_i)`` replaces theta_k, and the better
explanation is the one whose answers alone predict the features better (``gain_by_features``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.soft_counts import log_shares_of, states_given
from pyro_crowdclust.families import SMALLEST_PROBABILITY
from pyro_crowdclust.pooling.labels_together import LabelsTogether
from pyro_crowdclust.protocols import SupportsTrait, SupportsTrustedWorkers
from pyro_crowdclust.results.fitted import Fitted, check_fit
from pyro_crowdclust.results.item_posterior import infer_by_features
from pyro_crowdclust.results.tables import class_table, confusion_table
from pyro_crowdclust.training.argument_checks import check_has_class_labels

# Agreement of fewer workers can always be explained by independent workers.
MIN_WORKERS_WHO_VARY = 4
_DISCOUNTS = 4


@dataclass(frozen=True, eq=False)
class DiscountedClasses:
    """Classes from answers that are discounted where workers copy each other.

    Attributes
    ----------
    answers
        The labels, and which workers have enough common items to be compared.
    probabilities
        q(y_i = k).
    rows
        ``p(label | class)``.
    worker_weights
        w: as how many independent workers each worker counts.
    """

    answers: LabelsTogether
    probabilities: Float[np.ndarray, "item class"]
    rows: Float[np.ndarray, "worker class label"]
    worker_weights: Float[np.ndarray, " worker"]

    @property
    def data(self) -> CrowdData:
        """The items and their labels."""
        return self.answers.data

    @property
    def class_probabilities(self) -> pd.DataFrame:
        """The probabilities by the user's ids of items and classes."""
        return class_table(self.probabilities, self.data)

    @property
    def confusion(self) -> pd.DataFrame:
        """``p(label | class)`` by the user's ids of workers and classes."""
        return confusion_table({"mean": self.rows}, self.data)

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
        """D: standard errors of the agreement that classes do not explain, summed over pairs."""
        return self.answers.unexplained(self.probabilities, self.rows, self.worker_weights)


def discount_copies(
    data: CrowdData, by_features: Float[np.ndarray, "item class"] | None = None
) -> DiscountedClasses:
    """Classes with the answers of workers who copy each other discounted.

    The iteration starts from the majority vote. Time is linear in the number of pairs of answers
    about one item; at most two million pairs are used.

    Parameters
    ----------
    data
        Items with class labels.
    by_features
        ``p(k | x_i)`` of every item, if features are informative about the classes.

    Raises
    ------
    ValueError
        If data are not ``CrowdData``, or have no class labels.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random(400) < 0.3
    >>> says = truth[:, None] ^ (rng.random((400, 5)) < 0.2)
    >>> says[:, 1] = says[:, 0]
    >>> item, worker = np.indices(says.shape)
    >>> labels = {"item": item.ravel(), "worker": worker.ravel(), "label": says.ravel()}
    >>> discount_copies(CrowdData(None, labels=labels)).worker_weights.round(1).tolist()
    [0.5, 0.5, 1.0, 1.0, 1.0]
    """
    check_has_class_labels(data)
    answers = LabelsTogether(data, by_features)
    worker_weights = np.ones(data.num_workers)
    q = answers.majority()
    rows = answers.rows(q)
    for _ in range(_DISCOUNTS):
        worker_weights = answers.worker_weights(q, rows, worker_weights)
        q, rows = answers.classes(q, worker_weights)
    return DiscountedClasses(answers, q, rows, worker_weights)


def weight_of_copies(
    discounted: DiscountedClasses,
    probabilities: Float[np.ndarray, "item class"],
    trait: Fitted | None = None,
) -> float:
    """The weight of discounted classes in an average with classes that ignore copies.

    ``tanh(gain)`` of the gain in D, or 0 without a gain. It is the weight of the better explanation
    less that of the other, if every standard error counts two nats. The alternative to copies is
    that workers are independent, near ``probabilities``, or that of a fit with ``ItemTrait``,
    whichever explains more: workers who err about the same hard items are not copies.

    It is also 0 if fewer than four workers vary their answers. Three independent workers and two
    classes have seven parameters, as many as the eight triples of answers have free frequencies, so
    that copies cannot be distinguished.
    """
    answers, alone = discounted.answers, np.ones(len(discounted.worker_weights))
    if answers.num_who_vary() < MIN_WORKERS_WHO_VARY:
        return 0.0
    unexplained = [answers.unexplained(*answers.classes(probabilities, alone), alone)]
    if trait is not None:
        log_shares, rows = trait.model.annotators.at_points(trait.guide.posteriors)
        points = states_given(answers.matrix, log_shares, np.log(rows.clip(SMALLEST_PROBABILITY)))
        unexplained.append(answers.unexplained(points, rows, alone, rows))
    return max(0.0, math.tanh(min(unexplained) - discounted.unexplained))


def gain_by_features(
    discounted: DiscountedClasses,
    probabilities: Float[np.ndarray, "item class"],
    by_features: Float[np.ndarray, "item class"],
) -> float:
    """How much likelier features are under discounted answers than under independent ones.

        sum_i log sum_k p(k | x_i) p_w(k | a_i) / theta_k - the same with w = 1 for all workers

    in nats, over the items with answers. By Bayes' theorem each term is
    ``log p(x_i | a_i) / p(x_i)``, with the classes inferred from answers alone. If copies are
    counted in full, classes are sure where features contradict them, and the features are unlikely.

    Parameters
    ----------
    discounted
        Classes found with ``by_features``.
    probabilities
        q(y_i = k) of a fit in which all workers are independent.
    by_features
        ``p(k | x_i)``.
    """
    answers, alone = discounted.answers, np.ones(len(discounted.worker_weights))
    asked = np.unique(answers.item)

    def log_ratios(
        q: Float[np.ndarray, "item class"],
        rows: Float[np.ndarray, "worker class label"],
        worker_weights: Float[np.ndarray, " worker"],
    ) -> Float[np.ndarray, " asked"]:
        log_shares = log_shares_of(q)
        log_rows = worker_weights[:, None, None] * np.log(rows)
        named = states_given(answers.matrix, log_shares, log_rows)
        ratios = (by_features / np.exp(log_shares) * named).sum(1)[asked]
        return np.log(ratios.clip(SMALLEST_PROBABILITY))

    found = log_ratios(discounted.probabilities, discounted.rows, discounted.worker_weights)
    return float((found - log_ratios(*answers.classes(probabilities, alone), alone)).sum())


class Discounts(NamedTuple):
    """Discounted classes for a fit, and what they were computed with.

    Attributes
    ----------
    classes
        From the labels of workers who are not trusted: a trusted worker copies nobody.
    by_features
        ``p(k | x_i)`` that was used; None without features, or if they are uninformative about
        classes.
    known
        The items that a trusted worker has labelled, so that their class is known.
    """

    classes: DiscountedClasses
    by_features: Float[np.ndarray, "item class"] | None
    known: Bool[np.ndarray, " item"]


def discounts_of(result: Fitted) -> Discounts:
    """``discount_copies`` given the features of a fit and the labels of its trusted workers."""
    data, q = result.data, np.asarray(result.probabilities)
    labels, annotators = data.class_labels, result.model.annotators
    known = np.zeros(data.num_items, dtype=bool)
    if labels is not None and isinstance(annotators, SupportsTrustedWorkers):
        is_trusted = torch.from_numpy(annotators.trusted_workers())[labels.worker]
        known[labels.item[is_trusted].numpy()] = True
        data = data.with_class_labels(labels.at(~is_trusted))
    by_features = _classes_by_features(result)
    expected = by_features
    if known.any():
        of_others = np.exp(log_shares_of(q)) if by_features is None else by_features
        expected = np.where(known[:, None], q, of_others)
    discounted = discount_copies(data, expected)
    return Discounts(discounted, None if by_features is None else expected, known)


def _classes_by_features(result: Fitted) -> Float[np.ndarray, "item class"] | None:
    found = infer_by_features(result)
    by_features = None if found is None else found.numpy(force=True)
    if by_features is None or np.ptp(by_features, axis=0).max() < 1e-6:
        return None
    return np.asarray(by_features)


def discounted_class_probabilities(result: Fitted) -> pd.DataFrame:
    """``result.class_probabilities``, averaged with those that discount answers of copies.

    The weight of the discounted ones is ``weight_of_copies``. The result's own probabilities are
    returned if nobody copies, and for items that a trusted worker has labelled. Features of the fit
    are used in both.

    Raises
    ------
    ValueError
        If the result is not a fit, has no class labels, or was loaded without its features.
    """
    check_fit(result)
    check_has_class_labels(result.data)
    if result.feature_shape is not None and result.data.features is None:
        raise ValueError(
            "this result was loaded, and a file has no features, which are needed here: pass the "
            "data of the fit, load(path, data=data)"
        )
    frame = result.class_probabilities
    discounted, _, known = discounts_of(result)
    trait = result if isinstance(result.model.annotators, SupportsTrait) else None
    of_copies = weight_of_copies(discounted, np.asarray(result.probabilities), trait)
    weight = np.where(known, 0.0, of_copies)[:, None]
    return (1 - weight) * frame + weight * discounted.class_probabilities.to_numpy()
