"""Several models of the same class labels, averaged, and a temperature from answers held out.

    q(y_i) = mean_m q_m(y_i)           p(l | y_i = k, worker j) = mean_m E_m[gamma_jkl]

No model of annotators is best on every crowd, and which one is best cannot be seen from the ELBO,
which rewards what is known of the workers, not of the items: of models that are all sensible the
average is better than the choice. A part of the answers is held out; the temperature of the average
(see ``label_calibration``) is the one under which they are likeliest, each predicted from the
others about its item. No truth is needed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.label_calibration import TEMPERATURES, temper
from pyro_crowdclust.result import Fitted


@dataclass(frozen=True, eq=False)
class HeldOutAnswers:
    """Answers that no model has seen, in positions and codes of the data that it has seen."""

    item: Int[np.ndarray, " answer"]
    worker: Int[np.ndarray, " answer"]
    label: Int[np.ndarray, " answer"]

    def __len__(self) -> int:
        return len(self.item)


def hold_out_answers(
    data: CrowdData, share: float = 0.2, seed: int = 0
) -> tuple[CrowdData, HeldOutAnswers]:
    """The data without a random share of the class labels, and those labels.

    Held out are only answers about items, and of workers, that keep another one.

    Raises
    ------
    ValueError
        If ``share`` is not between 0 and 1, or if nothing can be held out.

    Examples
    --------
    >>> said = {"item": [0, 0, 0, 1, 1], "worker": list("abcab"), "label": list("xxyyy")}
    >>> rest, held = hold_out_answers(CrowdData(None, labels=said), share=0.2)
    >>> rest.num_labels, len(held)
    (4, 1)
    """
    if not 0 < share < 1:
        raise ValueError(f"share is {share}, but must be between 0 and 1")
    rng = np.random.default_rng(seed)
    labels = data.class_labels
    codes = [part.numpy() for part in (labels.item, labels.worker, labels.label)]
    left = np.bincount(codes[0]), np.bincount(codes[1])
    wanted = max(1, round(share * len(labels)))
    chosen: list[int] = []
    for answer in rng.permutation(len(labels)):
        item, worker = codes[0][answer], codes[1][answer]
        if len(chosen) < wanted and left[0][item] > 1 and left[1][worker] > 1:
            chosen.append(answer)
            left[0][item] -= 1
            left[1][worker] -= 1
    if not chosen:
        raise ValueError(
            "no answer can be held out, since every item or every worker has one answer only: fit "
            "one model"
        )
    held = np.zeros(len(labels), dtype=bool)
    held[chosen] = True
    with warnings.catch_warnings():
        # What there is to say of the labels was said of all of them.
        warnings.simplefilter("ignore", UserWarning)
        rest = CrowdData(
            data.features,
            labels=data.labels[~held],
            item_ids=data.item_ids,
            classes=data.class_ids,
        )
    return rest, HeldOutAnswers(*(part[held] for part in codes))


@dataclass(frozen=True, eq=False)
class AveragedClasses:
    """The average of several fits to the same class labels.

    Attributes
    ----------
    members
        The fits.
    temperature
        T of the average.
    """

    members: Sequence[Fitted]
    temperature: float

    @cached_property
    def class_probabilities(self) -> pd.DataFrame:
        """``q(y_i = k)^(1 / T)``, normalized, by the user's ids of items and classes."""
        frame = self.members[0].class_probabilities
        probabilities = temper(_average(self.members), self.temperature)
        return pd.DataFrame(probabilities, frame.index, frame.columns)

    @property
    def confusion(self) -> pd.DataFrame:
        """Posterior mean of ``p(label | class)`` of every worker."""
        means = [member.confusion["mean"] for member in self.members]
        return (sum(means) / len(means)).to_frame()


def average_classes(
    data: CrowdData,
    fit_each: Callable[[CrowdData], Sequence[Fitted]],
    share: float = 0.2,
    seed: int = 0,
) -> AveragedClasses:
    """Fit without some answers for the temperature, then with all of them.

    Parameters
    ----------
    data
        Items with class labels.
    fit_each
        Fits every model to the data that it is given.
    share, seed
        As for ``hold_out_answers``.
    """
    rest, held = hold_out_answers(data, share, seed)
    members = fit_each(rest)
    q = _average(members)[held.item]
    gamma = np.mean([member.guide.confusion().mean for member in members], axis=0)
    named = gamma[held.worker, :, held.label]

    def log_likelihood(temperature: float) -> float:
        return float(np.log((temper(q, temperature) * named).sum(1)).sum())

    return AveragedClasses(fit_each(data), max(TEMPERATURES, key=log_likelihood))


def _average(members: Sequence[Fitted]) -> Float[np.ndarray, "item class"]:
    return np.mean([member.probabilities for member in members], axis=0)
