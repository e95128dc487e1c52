"""Whether answers of several people about the same items agree more often than guesses would."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.errors import count, show, warn

# With this many pairs, agreement of workers who are right seven times in ten exceeds chance.
_MIN_PAIRS = 200
_MIN_ERRORS = 2.0


class Agreement(NamedTuple):
    """How often two answers about one item agree, or how much they correlate.

    Attributes
    ----------
    pairs
        Pairs of answers about one item.
    agreeing
        How many of these name the same class; for numbers, the sum of the products of the
        standardized answers.
    expected, deviation
        Mean and standard deviation of ``agreeing`` if answers were independent of the items.
    """

    pairs: int
    agreeing: float
    expected: float
    deviation: float

    @property
    def is_by_chance(self) -> bool:
        """Whether there are enough pairs, and they agree about as often as guesses would."""
        # Systematic disagreement is as informative as agreement.
        away = abs(self.agreeing - self.expected)
        return self.pairs >= _MIN_PAIRS and away < _MIN_ERRORS * self.deviation


def agreement_of(data: CrowdData) -> Agreement:
    """How often workers agree, and how often they would if their labels were drawn.

    By chance, worker j names class k with probability p_jk, the share of k among all labels of j.
    Of several labels that a worker gives to an item, the first counts. If an item has n labels, the
    expected number of agreeing pairs is

        sum_k ((sum_j p_jk)^2 - sum_j p_jk^2) / 2

    With p_k the mean of p_jk over these labels, and ``e = sum_k p_k^2``, a pair has the variance
    ``e - 2 sum_k p_k^3 + e^2``. It is that of ``sum_k ([a = k] - p_k) ([b = k] - p_k)``, since the
    shares p_jk are taken as given.

    Parameters
    ----------
    data
        Items with class labels.

    Examples
    --------
    >>> labels = {"item": [0, 0, 0, 1, 1], "worker": list("abcab"), "label": list("xxyyy")}
    >>> agreement_of(CrowdData(None, labels=labels))[:3]
    (4, 2, 2.0)
    """
    labels = data.needed_class_labels
    labels = labels.at(labels.is_first)
    item, worker, label = (part.numpy() for part in (labels.item, labels.worker, labels.label))
    ones, size = np.ones(len(item)), (data.num_workers, data.num_classes)
    shares = scipy.sparse.csr_array((ones, (worker, label)), size).toarray()
    shares /= shares.sum(1, keepdims=True).clip(1)
    votes = scipy.sparse.csr_array((ones, (item, label)), (data.num_items, size[1])).toarray()
    given = scipy.sparse.csr_array((ones, (item, worker)), (data.num_items, size[0]))
    number, expected = votes.sum(1), np.asarray(given @ shares)
    pairs = number * (number - 1) / 2
    agreeing = (votes * (votes - 1)).sum() / 2
    of_each = np.asarray(given @ (shares**2).sum(1))
    together = ((expected**2).sum(1) - of_each) / 2
    mean = expected / number.clip(1)[:, None]
    once, twice = (mean**2).sum(1), (mean**3).sum(1)
    variance = pairs * (once - 2 * twice + once**2)
    return Agreement(
        int(pairs.sum()), int(agreeing), float(together.sum()), math.sqrt(variance.sum())
    )


def warn_of_guesses(data: CrowdData) -> None:
    """Warn if workers agree only as often as if all of them guessed."""
    found = agreement_of(data)
    if found.is_by_chance:
        warn(
            f"workers agree about the same items as often as by chance: in {found.agreeing} of "
            f"{found.pairs} pairs of labels, where {found.expected:.0f} are expected if all "
            "workers guess. The labels do not show who is right, so the classes mean next to "
            "nothing, however high their probabilities are: collect more labels of the same "
            "items, or name a reliable worker as trusted"
        )


def warn_of_contradictions(trusted: Sequence[int], data: CrowdData, first_label: int = 0) -> None:
    """Warn if the labels of trusted workers contradict each other.

    Parameters
    ----------
    trusted
        Codes of these workers.
    data
        Items with class labels.
    first_label
        Only items that have a label from this row on are looked at: those of an update.
    """
    labels = data.needed_class_labels
    table = pd.DataFrame({"item": labels.item, "worker": labels.worker, "label": labels.label})
    later = table["item"][first_label:]
    table = table[table["worker"].isin(trusted) & table["item"].isin(later)]
    number = table.groupby("item")["label"].transform("nunique")
    doubtful = table[number > 1].drop_duplicates(["item", "label"])
    if len(doubtful):
        first, second, *_ = doubtful[doubtful["item"] == doubtful["item"].iloc[0]].itertuples()
        said = (
            f"{show(data.worker_ids[row.worker])} says {show(data.class_ids[row.label])}"
            for row in (first, second)
        )
        others = doubtful["item"].nunique() - 1
        warn(
            f"trusted workers contradict each other about item {show(data.item_ids[first.item])} "
            f"({' and '.join(said)})"
            + (f" and {count(others, 'other item')}" if others else "")
            + ": the other workers' labels decide there; correct the labels, or trust only one of "
            "these workers"
        )
