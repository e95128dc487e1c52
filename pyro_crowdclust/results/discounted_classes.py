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
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.families import SMALLEST_PROBABILITY
from pyro_crowdclust.protocols import SupportsTrait, SupportsTrusted
from pyro_crowdclust.results.fitted import Fitted, check_fit
from pyro_crowdclust.results.item_posterior import infer_by_features
from pyro_crowdclust.results.labels_together import LabelsTogether, log_shares_of
from pyro_crowdclust.training.given import check_class_labels

# Fewer workers who do not always say the same can be explained as independent ones.
_LEAST_WORKERS = 4
_DISCOUNTS = 4


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

    answers: LabelsTogether
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
    answers = LabelsTogether(data, by_features)
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
        points = answers.states(log_shares, np.log(rows.clip(SMALLEST_PROBABILITY)))
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
        log_shares = log_shares_of(q)
        named = answers.states(log_shares, worth[:, None, None] * np.log(rows))
        ratios = (by_features / np.exp(log_shares) * named).sum(1)[asked]
        return np.log(ratios.clip(SMALLEST_PROBABILITY))

    found = log_ratios(discounted.probabilities, discounted.rows, discounted.worth)
    return float((found - log_ratios(*answers.classes(probabilities, alone), alone)).sum())


class Discounts(NamedTuple):
    """What a fit becomes where workers may copy each other.

    Attributes
    ----------
    classes
        From the labels of those who may err: whoever is trusted copies nobody.
    by_features
        ``p(k | x_i)`` with which these were found; None where features say nothing of classes, or
        there are none.
    known
        The items of which somebody spoke who is trusted, and said what the class is.
    """

    classes: DiscountedClasses
    by_features: Float[np.ndarray, "item class"] | None
    known: Bool[np.ndarray, " item"]


def discounts_of(result: Fitted) -> Discounts:
    """``discount_copies`` beside what a fit knows of features, and from workers who are trusted."""
    data, q = result.data, np.asarray(result.probabilities)
    labels, annotators = data.class_labels, result.model.annotators
    known = np.zeros(data.num_items, dtype=bool)
    if labels is not None and isinstance(annotators, SupportsTrusted):
        is_trusted = torch.from_numpy(annotators.trusted_workers())[labels.worker]
        known[labels.item[is_trusted].numpy()] = True
        data = data.with_class_labels(labels.at(~is_trusted))
    by_features = _told_by_features(result)
    expected = by_features
    if known.any():
        of_others = np.exp(log_shares_of(q)) if by_features is None else by_features
        expected = np.where(known[:, None], q, of_others)
    discounted = discount_copies(data, expected)
    return Discounts(discounted, None if by_features is None else expected, known)


def _told_by_features(result: Fitted) -> Float[np.ndarray, "item class"] | None:
    found = infer_by_features(result)
    by_features = None if found is None else found.numpy(force=True)
    if by_features is None or np.ptp(by_features, axis=0).max() < 1e-6:
        return None
    return np.asarray(by_features)


def discounted_class_probabilities(result: Fitted) -> pd.DataFrame:
    """``result.class_probabilities``, averaged with discounted ones as far as copies explain more.

    Where nobody copies, they are those of the result, and so are those of items of which somebody
    spoke who is trusted. Features of a fit say of both what they say.

    Raises
    ------
    ValueError
        For what is no fit, a fit without class labels, and a loaded one without its features.
    """
    check_fit(result)
    check_class_labels(result.data)
    if result.feature_shape is not None and result.data.features is None:
        raise ValueError(
            "this result was loaded, and a file has no features, which say of the classes what "
            "answers do not: pass the data of the fit, load(path, data=data)"
        )
    frame = result.class_probabilities
    discounted, _, known = discounts_of(result)
    trait = result if isinstance(result.model.annotators, SupportsTrait) else None
    of_copies = weight_of_copies(discounted, np.asarray(result.probabilities), trait)
    weight = np.where(known, 0.0, of_copies)[:, None]
    return (1 - weight) * frame + weight * discounted.class_probabilities.to_numpy()
