"""Clusters from answers alone: which sizes clusters have is chosen by answers held out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from scipy.stats import entropy
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.fitting import TrainingOptions
from pyro_crowdclust.interface.recipe import Recipe, seeds_of
from pyro_crowdclust.interface.records import hears_features
from pyro_crowdclust.interface.said_alone import (
    EPOCHS,
    SaidAlone,
    items_spoken_of,
    said_alone,
)
from pyro_crowdclust.partitions import AskedPairs
from pyro_crowdclust.results.chosen import INTERRUPTED, UNCLEAR, Chosen
from pyro_crowdclust.results.further_training import FurtherTraining
from pyro_crowdclust.training import is_interrupted
from pyro_crowdclust.training.isolation import generator_of
from pyro_crowdclust.training.options import check_values

# Sweeps of a fit that is only compared with another, at most.
TRIAL_EPOCHS = 60
_MOST_PARTS = 5
# Standard errors by which answers held out are clearly likelier under one prior than another: the
# best of several looks better than it is.
_CLEAR = 2.0
# Of clusters that are too many .05 of the answers about random pairs and more say otherwise, of
# records .02 at most. What looks alike is many clusters, unless answers deny it more often.
_AS_CLOSE, _AS_CLOSE_ALIKE = 0.03, 0.1
# Of the answers "same" clusters have a larger share within them, or next to nobody is the same.
_LEAST_SAME = 0.05
_GUESSES = (
    "there are too few answers to tell which items are the same, more are needed, and the "
    "clusters, few clusters, are guesses"
)
_ONE_CLUSTER = (
    "either all items are one cluster, as is found, or there are too few answers to tell them "
    "apart, and more are needed"
)


_VARIANTS: tuple[tuple[Callable[[SaidAlone], SaidAlone | None], str], ...] = (
    (
        lambda said: said.with_near_items(),
        "nearest neighbours may be one whom nobody was asked about",
    ),
    (lambda said: said.with_hard_items(), "some items are hard to recognize"),
)


class _Trial(NamedTuple):
    """A candidate, and how likely it finds answers that were held out, or pages, a placement."""

    prior: str
    said: SaidAlone
    log_probabilities: Float[Tensor, " answer"]
    sizes: Int[np.ndarray, " cluster"]
    seconds: float
    is_whole: bool = True
    agreement: float = 0.0
    joined: int = 0
    heard_same: float = 1.0

    @property
    def name(self) -> str:
        hard = ", hard items" * self.said.hard_items
        return self.prior + hard + ", near items" * self.said.near_items

    @property
    def held_out(self) -> float:
        return float(self.log_probabilities.mean())

    @property
    def clusters(self) -> int:
        return len(self.sizes)

    @property
    def tells(self) -> bool:
        """Whether items are the same, and so those of which people said it."""
        return self.clusters < int(self.sizes.sum()) and self.heard_same >= _LEAST_SAME

    @property
    def effective(self) -> float:
        """``exp H`` of their shares: so many clusters of like size would tell as much."""
        return float(np.exp(entropy(self.sizes)))


@dataclass(frozen=True)
class AnswersAlone:
    """Priors of the sizes of clusters, ready to be compared by answers held out.

    Attributes
    ----------
    data
        Items and answers about pairs of them, or sorted pages. Features say how alike the two items
        of a pair are, unless ``likeness`` does; of pages they say nothing.
    share
        Share of the answers, or pages, that are held out.
    """

    data: CrowdData
    share: float = 0.1

    def run(self, *, seed: int = 0, epochs: int = EPOCHS) -> tuple[Recipe, Chosen]:
        """Compare the priors; the recipe of the best on all data, and how it was chosen.

        Parameters
        ----------
        seed
            Of the answers that are held out, and of the fits.
        epochs
            Sweeps of the fit to come: those that are compared have no more.

        Raises
        ------
        ValueError
            If every answer is "can't tell".
        """
        return self._searched(seed, epochs)[:2]

    def _searched(self, seed: int, epochs: int) -> tuple[Recipe, Chosen, bool]:
        """What ``run`` finds, and whether Ctrl-C ended the search."""
        if self.data.answers is not None and bool(self.data.answers.label.isnan().all()):
            raise ValueError(
                'every answer is "can\'t tell", which says of no two items whether they are the '
                "same: pass answers with labels, or features"
            )
        tried: list[_Trial] = []
        chance: float | None
        interrupted = False
        try:
            chosen, reason, chance = self._compare(tried, seed, min(epochs, TRIAL_EPOCHS))
        except KeyboardInterrupt:
            if not tried:
                raise
            chosen = max(tried, key=lambda trial: trial.held_out)
            reason = f"best of {len(tried)} priors when the search was interrupted"
            chance, interrupted = None, True
        rows = [(t.name, t.held_out, t.clusters, t.seconds, t is chosen) for t in tried]
        table = pd.DataFrame(rows, columns=["prior", "held_out", "clusters", "seconds", "chosen"])
        said = chosen.said.about(self.data)
        found = said.recipe(said.priors[chosen.prior]())
        return found, Chosen(table, reason, chance), interrupted

    def _compare(self, tried: list[_Trial], seed: int, epochs: int) -> tuple[_Trial, str, float]:
        """The best prior, why it is, and what chance knows of the answers; notes what it tries."""
        said = said_alone(items_spoken_of(self.data))
        generator = generator_of(seed)
        parts = said.parts(self.share, _MOST_PARTS, generator)
        options = {"seed": seed, "epochs": epochs, "progress": False}

        def attempt(prior: str, said: SaidAlone) -> _Trial:
            trial = _trial(said, parts, prior, options)
            # Of the first of all what there is until Ctrl-C, of others only what is whole.
            if trial.is_whole or not tried:
                tried.append(trial)
            if not trial.is_whole:
                raise KeyboardInterrupt
            return trial

        for prior in said.priors:
            attempt(prior, said)
        # Where what a pair looks like is no matter of what it is, answers are predicted, and no
        # question is answered.
        telling = [trial for trial in tried if trial.tells] or tried
        likeliest = max(telling, key=lambda trial: trial.held_out)
        chance = said.by_chance(parts)
        if _is_worse(chance, likeliest.log_probabilities, _CLEAR):
            as_close = _AS_CLOSE_ALIKE if said.look_alike else _AS_CLOSE
            chosen = _simplest(telling, likeliest, as_close)
            reason = f"answers held out are likeliest under {chosen.prior}"
            if chosen is not likeliest:
                simpler = (
                    "with no more clusters"
                    if chosen.effective <= likeliest.effective
                    else "where far fewer pairs are one cluster that nobody was asked about"
                )
                reason = (
                    f"answers held out are about as likely under {chosen.prior} as under "
                    f"{likeliest.prior}, {simpler}"
                )
            if len(telling) < len(tried):
                silent = [trial.prior for trial in tried if not trial.tells]
                reason += f"; under {' and '.join(silent)} next to no items would be the same"
            # What else items may be is asked under one prior only. Items that are alike are a case
            # of hard ones, so that these have nothing to prove, but where features say how alike
            # items are.
            errors = 1.0 if hears_features(self.data) else 0.0
            chosen, likelier_if = _varied(chosen, attempt, errors)
            reason += likelier_if
        else:
            # Then they cannot tell priors apart, either.
            chosen = tried[0]
            reason = f"{UNCLEAR}: {_GUESSES if chosen.clusters > 1 else _ONE_CLUSTER}"
        return chosen, reason, float(chance.mean())

    def fit(self, *, num_starts: int = 1, seed: int = 0, **changes: Any) -> Fitted:
        """Choose, then fit to all answers.

        Parameters
        ----------
        num_starts, seed, changes
            As of ``Recipe.fit``.

        Raises
        ------
        ValueError
            As ``fit`` does, and for a number of starts below 1.
        """
        seeds_of(num_starts, seed)
        check_values(self.data, **changes)
        options = changes | {"epochs": changes.get("epochs") or EPOCHS}
        recipe, chosen, interrupted = self._searched(seed, options["epochs"])
        fitted = recipe.fit(num_starts=num_starts, seed=seed, **options)
        if interrupted:
            fitted = replace(fitted, stop_reason=INTERRUPTED)
        again = SearchOptions(self.share, num_starts, changes)
        return replace(fitted, chosen=chosen, train_on=again)


@dataclass(frozen=True)
class SearchOptions(FurtherTraining):
    """``AnswersAlone.fit`` as it was called, for ``Fitted.update``; a file can hold it.

    With more answers other sizes of clusters may be likelier, so that nothing is kept of the fit.

    Attributes
    ----------
    share
        Share of the answers that are held out.
    num_starts, options
        As of ``AnswersAlone.fit``.

    Examples
    --------
    >>> pairs = {"left": [0, 1], "right": [1, 2], "worker": ["a", "a"], "label": [1, 0]}
    >>> again = SearchOptions(share=0.5, num_starts=1, options={"epochs": 2, "progress": False})
    >>> again(None, None, CrowdData(None, pairs=pairs)).data.num_items
    3
    """

    share: float
    num_starts: int
    options: dict[str, Any]

    @classmethod
    def option_names(cls) -> frozenset[str]:
        """Those of ``AnswersAlone.fit``."""
        return TrainingOptions.option_names() | {"num_starts"}

    def __call__(self, model: Any, guide: Any, data: CrowdData, **changes: Any) -> Fitted:
        """Search and fit with these options, but for changes."""
        options = {"num_starts": self.num_starts} | self.options | changes
        return AnswersAlone(data, self.share).fit(**options)


def _trial(
    said: SaidAlone,
    parts: list[Bool[Tensor, " unit"]],
    prior: str,
    options: dict[str, Any],
) -> _Trial:
    """Fits without each of the parts, or until Ctrl-C: they say how likely the part is."""
    started, log_probabilities, is_whole = time.perf_counter(), [], True
    for out in parts:
        told = said.without(out).for_trials()
        result = told.recipe(said.priors[prior]()).fit(**options)
        log_probabilities.append(said.log_probability(result, out))
        if is_interrupted(result):
            is_whole = False
            break
    sizes, seconds = np.bincount(result.assignments), time.perf_counter() - started
    heard, said_of = torch.cat(log_probabilities), _agreement(result)
    return _Trial(prior, said, heard, sizes, seconds, is_whole, *said_of)


def _varied(
    chosen: _Trial, attempt: Callable[[str, SaidAlone], _Trial], errors: float
) -> tuple[_Trial, str]:
    """The likelier of the variants of a trial, and then the others beside it; and why it is.

    Parameters
    ----------
    chosen
        What is varied.
    attempt
        Tries what is said under a prior.
    errors
        Standard errors by which held-out answers have to be likelier.
    """
    reason, left = "", list(_VARIANTS)
    while left:
        trials = [
            (attempt(chosen.prior, varied), variant)
            for variant in left
            if (varied := variant[0](chosen.said)) is not None
        ]
        better = [
            (trial, variant)
            for trial, variant in trials
            if (trial.tells or not chosen.tells)
            and _is_worse(chosen.log_probabilities, trial.log_probabilities, errors)
        ]
        if not better:
            break
        chosen, taken = max(better, key=lambda one: one[0].held_out)
        reason += f"; they are likelier if {taken[1]}"
        left = [variant for _, variant in trials if variant is not taken]
    return chosen, reason


def _agreement(result: Fitted) -> tuple[float, int, float]:
    """How far the answers say what the clusters do, how much these say beyond them, and how little.

    ``1 - (1 / P) sum_p |L_p - [z_i = z_j]|``, the number of pairs in one cluster that nobody was
    asked about, and the share of the answers "same" about pairs in one. Grades are between 0 and 1,
    and who cannot tell has no part in it; sorted pages have 0, 0 and 1.
    """
    answers, labels = result.data.answers, torch.tensor(result.assignments)
    if answers is None:
        return 0.0, 0, 1.0
    pairs = AskedPairs.of(answers.items, result.data.num_items)
    together = pairs.together(labels)
    found = together[pairs.pair].double()
    agreement = 1 - (answers.label - found).abs().nanmean()
    said_same = answers.label.nansum()
    heard_same = (answers.label * found).nansum() / said_same if said_same else 1.0
    return float(agreement), pairs.num_within(labels) - int(together.sum()), float(heard_same)


def _simplest(tried: list[_Trial], likeliest: _Trial, as_close: float) -> _Trial:
    """Of trials that are not worse than the likeliest the one with the fewest clusters.

    Of several answers about one pair the others tell what is held out, whatever the clusters are.
    So another is preferred that agrees with as many of the answers, or nearly, though it joins less
    than half as many pairs that nobody was asked about. So does that of records, where people were
    asked about pairs that look alike; where pairs are random it agrees with fewer. How near is
    ``as_close``.
    """
    heard = likeliest.log_probabilities
    as_good = [trial for trial in tried if not _is_worse(trial.log_probabilities, heard, _CLEAR)]
    simplest = min(as_good, key=lambda trial: trial.effective)
    saying_less = [
        trial
        for trial in as_good
        if trial.joined < simplest.joined / 2 and trial.agreement > simplest.agreement - as_close
    ]
    return min(saying_less, key=lambda trial: trial.joined, default=simplest)


def _is_worse(
    one: Float[Tensor, " answer"], other: Float[Tensor, " answer"], errors: float = 1.0
) -> bool:
    """Whether the answers are less likely by more than so many errors of the mean difference."""
    difference = other - one
    error = float(difference.std(correction=0)) / len(one) ** 0.5
    return float(difference.mean()) > errors * error
