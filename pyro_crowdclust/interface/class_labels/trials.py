"""A candidate of ``classify``, and how well it predicted labels of held-out items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.interface.class_labels.workers import Workers

# In addition to the held-out items, features are assumed to have misled about this many items.
_MISLED = 0.5


@dataclass(frozen=True)
class ClassCandidate:
    """A model of labels and features.

    Attributes
    ----------
    features
        Its coordinates, in words.
    kind
        The kind of model, in words.
    fit
        Fits it to data, with options of ``fit``, and assumptions about the workers.
    feature_weights
        Weights that the features' evidence about classes may have after the fit, 1 first.
    uses_features
        Whether it is not a model of the labels alone.
    """

    features: str
    kind: str
    fit: Callable[[CrowdData, dict[str, Any], Workers], Fitted]
    feature_weights: tuple[float, ...] = (1.0,)
    uses_features: bool = True


@dataclass(frozen=True)
class ClassTrial:
    """A candidate that was tried.

    Attributes
    ----------
    candidate
        The candidate.
    own
        Joint log-probability of all labels of each held-out item, a row for every one of
        ``feature_weights`` of the candidate.
    of_others
        The mean of this log-probability with the labels of another item of the same part.
    num_labels
        Number of held-out labels.
    seconds
        Duration of its fits.
    weight
        Its weight in the average of all candidates.
    """

    candidate: ClassCandidate
    own: Float[np.ndarray, "weight item"]
    of_others: Float[np.ndarray, "weight item"]
    num_labels: int
    seconds: float
    weight: float = 0.0

    @property
    def scores(self) -> Float[np.ndarray, " weight"]:
        """Expected joint log-probability of an item's labels, in nats, for each weight.

        With ``l_ij`` the log-probability of item j's labels as those of item i, of n items,

            (sum_i l_ii + 1/2 mean_{i != j} l_ij) / (n + 1/2)

        This is as if features had misled about half an item more, as in Jeffreys' prior of an error
        rate: to be right about a few items does not show how often a candidate is right, and so not
        how certain it may be.
        """
        said, others = self.own.sum(1), self.of_others.mean(1)
        return np.asarray((said + _MISLED * others) / (self.own.shape[1] + _MISLED))

    @property
    def total(self) -> float:
        """The largest score, times the number of items with the half one."""
        return float(self.scores.max() * (self.own.shape[1] + _MISLED))

    @property
    def feature_weight(self) -> float:
        """The weight of the features with the largest score."""
        return self.candidate.feature_weights[int(self.scores.argmax())]

    @property
    def by_item(self) -> Float[np.ndarray, " item"]:
        """Joint log-probability of the labels of each held-out item, at this weight."""
        return np.asarray(self.own[self.scores.argmax()])

    @property
    def held_out(self) -> float:
        """Mean log-probability of a held-out label, at this weight."""
        return float(self.by_item.sum()) / self.num_labels

    @property
    def row(self) -> dict[str, Any]:
        """Its row in the table of the choice."""
        return {
            "features": self.candidate.features,
            "kind": self.candidate.kind,
            "held_out": self.held_out,
            "feature_weight": self.feature_weight,
            "weight": self.weight,
            "seconds": self.seconds,
        }
