"""The search of ``classify``: how well candidates predict labels of held-out items."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from tqdm.auto import tqdm

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.data.class_labels import ClassLabels
from pyro_crowdclust.data.tables import count
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface.class_labels.workers import Workers
from pyro_crowdclust.models import DawidSkene
from pyro_crowdclust.pooling.comparison import (
    critical_value,
    gain_by_a_part,
    is_clearly_better,
)
from pyro_crowdclust.pooling.held_out_items import held_out_parts, log_probabilities_by_item
from pyro_crowdclust.results import Chosen, read_at
from pyro_crowdclust.training import completed
from pyro_crowdclust.training.interrupts import WaitingInterrupt
from pyro_crowdclust.training.isolation import generator_of

# Steps of the start, in which the other parameters are fitted to the vote: a regression needs
# several, all others one.
_STEPS = 10
# With fewer items no share of right ones is clearly above chance: then this gain in nats is enough.
_MIN_ITEMS, _MIN_GAIN = 20, 0.5
# The share of the gains, the largest ones, that count as the largest of the others.
_LARGEST = 0.02
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
    sharpness
        Weights that the features' evidence about classes may have after the fit, 1 first.
    uses_features
        Whether it is not a model of the labels alone.
    """

    features: str
    kind: str
    fit: Callable[[CrowdData, dict[str, Any], Workers], Fitted]
    sharpness: tuple[float, ...] = (1.0,)
    uses_features: bool = True


@dataclass(frozen=True)
class ClassTrial:
    """A candidate that was tried.

    Attributes
    ----------
    candidate
        The candidate.
    own
        Joint log-probability of all labels of each held-out item, a row for every ``sharpness`` of
        the candidate.
    of_others
        The mean of this log-probability with the labels of another item of the same part.
    seconds
        Duration of its fits.
    """

    candidate: ClassCandidate
    own: Float[np.ndarray, "sharpness item"]
    of_others: Float[np.ndarray, "sharpness item"]
    seconds: float

    @property
    def as_fitted(self) -> Float[np.ndarray, " item"]:
        """Joint log-probability of the labels of each held-out item, at a sharpness of 1."""
        return np.asarray(self.own[0])

    @property
    def scores(self) -> Float[np.ndarray, " sharpness"]:
        """Expected joint log-probability of an item's labels, in nats, for each sharpness.

        With ``l_ij`` the log-probability of item j's labels as those of item i, of n items,

            (sum_i l_ii + 1/2 mean_{i != j} l_ij) / (n + 1/2)

        This is as if features had misled about half an item more, as in Jeffreys' prior of an error
        rate: to be right about a few items does not show how often a candidate is right, and so not
        how certain it may be.
        """
        said, others = self.own.sum(1), self.of_others.mean(1)
        return np.asarray((said + _MISLED * others) / (self.own.shape[1] + _MISLED))

    @property
    def score(self) -> float:
        """The largest of the ``scores``."""
        return float(self.scores.max())

    @property
    def sharpness(self) -> float:
        """The sharpness with the largest score."""
        return self.candidate.sharpness[int(self.scores.argmax())]

    @property
    def by_item(self) -> Float[np.ndarray, " item"]:
        """Joint log-probability of the labels of each held-out item, at this sharpness."""
        return np.asarray(self.own[self.scores.argmax()])


class ClassSearch:
    """Compares candidates by cross-validation over the labelled items.

    Parameters
    ----------
    data
        Items with features and labels.
    candidates
        The candidates; the first uses no features, and all others are compared with it.
    options
        Options of ``fit``, for all candidates.
    folds
        Number of parts of the labelled items, each held out once.
    workers
        Assumptions about the workers.
    """

    def __init__(
        self,
        data: CrowdData,
        candidates: Sequence[ClassCandidate],
        options: dict[str, Any],
        folds: int,
        workers: Workers,
    ) -> None:
        self._data, self._candidates, self._options = data, candidates, options
        self._workers = workers
        self._parts = parts_of_seen_classes(data, folds, options["seed"])
        self.trials: list[ClassTrial] = []
        self.interrupted = False

    def run(self, progress: bool) -> tuple[ClassTrial, str]:
        """Try all candidates; returns the trial of the one to fit to all data, and the reason."""
        try:
            # The first optimizer imports parts of torch, and later fits fail if that is
            # interrupted.
            with WaitingInterrupt() as interrupt:
                seed = self._options["seed"]
                starts = [WorkersStart(seen, self._workers, seed) for seen, _ in self._parts]
            if interrupt.received:
                raise KeyboardInterrupt
            bar = tqdm(self._candidates, disable=not progress, unit="candidate")
            for candidate in bar:
                bar.set_description(f"{candidate.kind} on {candidate.features}")
                self.trials.append(self._tried(candidate, starts))
        except KeyboardInterrupt:
            if not self.trials:
                raise
            self.interrupted = True
        return self._winner()

    def _tried(self, candidate: ClassCandidate, starts: Sequence[WorkersStart]) -> ClassTrial:
        begun = time.perf_counter()
        own, of_others = [], []
        for (seen, held), start in zip(self._parts, starts, strict=True):
            options = {"initialize": start} | self._options
            result = completed(candidate.fit(seen, options, self._workers))
            read = (read_at(result, sharpness) for sharpness in candidate.sharpness)
            found = np.stack([log_probabilities_by_item(one, held) for one in read])
            own.append(np.diagonal(found, axis1=1, axis2=2))
            of_others.append(_of_others(found))
        seconds = time.perf_counter() - begun
        return ClassTrial(candidate, np.concatenate(own, 1), np.concatenate(of_others, 1), seconds)

    def _winner(self) -> tuple[ClassTrial, str]:
        alone, *others = self.trials
        telling = [one for one in others if self._exceeds_chance(one, alone)]
        best = max(telling, key=lambda trial: trial.score, default=alone)
        reason = "no candidate with features predicts held-out labels clearly better than chance"
        if not others:
            reason = "features were not tried"
        if best is not alone:
            reason = (
                "it predicts held-out labels best, computed as if features had misled it about "
                "half an item more"
            )
        if self.interrupted:
            tried = count(len(self.trials), "candidate")
            reason += f"; {tried} had been tried when this was interrupted"
        return best, reason

    def _exceeds_chance(self, trial: ClassTrial, alone: ClassTrial) -> bool:
        """Whether a candidate predicts held-out labels better than the labels alone do."""
        number = len(alone.by_item)
        if number < _MIN_ITEMS:
            return (trial.score - alone.score) * (number + _MISLED) > _MIN_GAIN
        return exceeds_chance(trial.as_fitted, alone.by_item, len(self.trials) - 1)

    def chosen(self, winner: ClassTrial, reason: str) -> Chosen:
        """The table of trials, with the reason and the score of the labels alone."""
        number = sum(len(held) for _, held in self._parts)
        rows = [
            {
                "features": trial.candidate.features,
                "kind": trial.candidate.kind,
                "components": self._data.num_classes,
                "held_out": float(trial.by_item.sum()) / number,
                "feature_weight": trial.sharpness,
                "seconds": trial.seconds,
                "chosen": trial is winner,
            }
            for trial in self.trials
        ]
        table = pd.DataFrame(rows)
        return Chosen(table, reason, float(table["held_out"].iloc[0]))


def parts_of_seen_classes(
    data: CrowdData, folds: int, seed: int
) -> list[tuple[CrowdData, ClassLabels]]:
    """``held_out_parts`` without items one of whose labels names a class that no other part has.

    With few labels, all items of a class may be held out together. The fit cannot know it then,
    which does not matter for the fit to all data, and the more it knows of the others, the surer
    it is wrong. If these are all items, none is left out.

    Parameters
    ----------
    data, folds, seed
        As for ``held_out_parts``.

    Examples
    --------
    >>> said = {"item": range(5), "worker": "a", "label": list("xxyyz")}
    >>> parts = parts_of_seen_classes(CrowdData(None, labels=said), folds=5, seed=0)
    >>> sorted(int(item) for _, held in parts for item in held.item)
    [0, 1, 2, 3]
    """
    parts = held_out_parts(data, folds, seed)
    kept = []
    for seen, held in parts:
        assert seen.class_labels is not None  # as the other parts have labels
        is_unknown = ~torch.isin(held.label, seen.class_labels.label)
        kept.append((seen, held.at(~torch.isin(held.item, held.item[is_unknown]))))
    return kept if any(len(held) for _, held in kept) else parts


def _of_others(
    found: Float[np.ndarray, "sharpness item other"],
) -> Float[np.ndarray, "sharpness item"]:
    """Means over all other items; for a single item in its part, its own value."""
    number = found.shape[1]
    own = np.diagonal(found, axis1=1, axis2=2)
    return (found.sum(2) - own) / (number - 1) if number > 1 else own


def exceeds_chance(
    found: Float[np.ndarray, " item"], alone: Float[np.ndarray, " item"], num_candidates: int
) -> bool:
    """Whether a candidate predicts held-out labels better than chance.

    With ``d_i = p(labels of i) / p_0(labels of i) - 1``, where p_0 knows the labels of others
    alone, the mean of d is above ``critical_value(C)`` standard errors, C the number of
    candidates. Where features tell nothing the expectation of d is 0 however sure a candidate is of
    itself, while ``log p / p_0`` is below 0 also where it is right oftener than chance, but too
    sure (``gain_by_a_part``). The largest d, a fiftieth of them, count as the largest of the
    others, which can only lower the expectation: several labels of one item may have a ratio of
    thousands, and alone would make the error as large as the mean.

    Parameters
    ----------
    found, alone
        Log-probability of all labels of each held-out item, by the candidate and by the labels of
        others alone.
    num_candidates
        C.

    Examples
    --------
    >>> even, surely = np.full(80, np.log(0.5)), np.log([0.99] * 60 + [0.01] * 20)
    >>> bool(surely.mean() < even.mean()), exceeds_chance(surely, even, 1)  # right in 3 of 4
    (True, True)
    >>> exceeds_chance(surely[40:], even[40:], 1)  # every other time
    False
    """
    gain = gain_by_a_part(found, alone)
    gain = np.minimum(gain, np.quantile(gain, 1 - _LARGEST, method="lower"))
    return is_clearly_better(gain, np.zeros_like(gain), critical_value(num_candidates))


class WorkersStart:
    """A start from priors of workers that are fitted to the vote, the same for all candidates.

    These priors take many steps to converge, and do not depend on features.

    Parameters
    ----------
    data
        The labels.
    workers
        Assumptions about the workers.
    seed
        Seed of the items in the vote, if there are many.
    """

    def __init__(self, data: CrowdData, workers: Workers, seed: int) -> None:
        self._model = DawidSkene(workers.annotators(data))
        generator = generator_of(seed)
        with torch.enable_grad():  # in case gradients are switched off globally
            ClassLabelGuide(self._model).start(data, generator)

    def __call__(self, model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
        """Copy the workers' priors to a model, and fit all other parameters to the vote."""
        workers = model.annotators
        workers.load_state_dict(self._model.annotators.state_dict())
        learned = [one for one in workers.parameters() if one.requires_grad]
        for one in learned:
            one.requires_grad_(False)
        guide.start(data, generator, steps=_STEPS)
        for one in learned:
            one.requires_grad_(True)
