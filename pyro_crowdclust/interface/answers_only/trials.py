"""A prior of the sizes of clusters on trial: how likely it finds answers that were held out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.stats import entropy
from torch import Tensor

from pyro_crowdclust import Fitted
from pyro_crowdclust.data.pair_answers import Answers
from pyro_crowdclust.interface.answers_only.kinds import AnswersOnly
from pyro_crowdclust.partitions import AskedPairs
from pyro_crowdclust.results.comparison import is_clearly_better
from pyro_crowdclust.training import is_interrupted, whole

# Standard errors by which answers held out are clearly likelier under one prior than another: the
# best of several looks better than it is.
CLEAR = 2.0
# Of the answers "same" clusters have a larger share within them, or next to nobody is the same.
_MIN_SAME = 0.05
# Of the answers that clusters on trial say, a fit to all that has found others may miss so many.
_MISSED = 0.1

_VARIANTS: tuple[tuple[Callable[[AnswersOnly], AnswersOnly | None], str], ...] = (
    (
        lambda answers: answers.with_near_items(),
        "nearest neighbours may be one whom nobody was asked about",
    ),
    (lambda answers: answers.with_hard_items(), "some items are hard to recognize"),
)


class PriorTrial(NamedTuple):
    """A candidate, and how likely it finds answers that were held out, or pages, a placement."""

    prior: str
    answers: AnswersOnly
    log_probabilities: Float[Tensor, " answer"]
    sizes: Int[np.ndarray, " cluster"]
    seconds: float
    is_whole: bool = True
    agreement: float = 0.0
    joined: int = 0
    share_joined: float = 1.0

    @property
    def name(self) -> str:
        hard = ", hard items" * self.answers.hard_items
        return self.prior + hard + ", near items" * self.answers.near_items

    @property
    def held_out(self) -> float:
        return float(self.log_probabilities.mean())

    @property
    def clusters(self) -> int:
        return len(self.sizes)

    @property
    def tells(self) -> bool:
        """Whether items are one, among them those that people called the same."""
        return _tells(self.sizes, self.share_joined)

    def holds_in(self, result: Fitted) -> bool:
        """Whether a fit to all answers has found clusters that agree with as many of them.

        The posterior has several modes, of which it may find another than the fits on trial.
        """
        agreeing, _, share_joined = agreement(result)
        tells = _tells(np.bincount(result.assignments), share_joined) or not self.tells
        return tells and self.says_no_more_than(agreeing)

    def says_no_more_than(self, agreeing: float) -> bool:
        """Whether clusters say as many answers, or nearly, if they agree with so many of them."""
        return agreeing >= self.agreement - _MISSED

    @property
    def effective(self) -> float:
        """``exp H`` of their shares: so many clusters of like size would tell as much."""
        return float(np.exp(entropy(self.sizes)))


def trial_of(
    answers: AnswersOnly,
    parts: list[Bool[Tensor, " unit"]],
    prior: str,
    options: dict[str, Any],
) -> PriorTrial:
    """Fits without each of the parts, or until Ctrl-C: they say how likely the part is."""
    started, log_probabilities, is_whole = time.perf_counter(), [], True
    for out in parts:
        kept = answers.without(out).for_trials()
        result = kept.recipe(answers.priors[prior]()).fit(**options)
        log_probabilities.append(answers.log_probability(result, out))
        if is_interrupted(result):
            is_whole = False
            break
    sizes, seconds = np.bincount(result.assignments), time.perf_counter() - started
    held_out = torch.cat(log_probabilities)
    return PriorTrial(prior, answers, held_out, sizes, seconds, is_whole, *agreement(result))


def varied(
    chosen: PriorTrial, attempt: Callable[[str, AnswersOnly], PriorTrial], errors: float
) -> tuple[PriorTrial, str]:
    """The likelier of the variants of a trial, and then the others beside it; and why it is.

    Parameters
    ----------
    chosen
        What is varied.
    attempt
        Tries the answers under a prior.
    errors
        Standard errors by which held-out answers have to be likelier.
    """
    reason, left = "", list(_VARIANTS)
    while left:
        trials = [
            (attempt(chosen.prior, answers), variant)
            for variant in left
            if (answers := variant[0](chosen.answers)) is not None
        ]
        better = [
            (trial, variant)
            for trial, variant in trials
            if (trial.tells or not chosen.tells)
            and is_clearly_better(trial.log_probabilities, chosen.log_probabilities, errors)
        ]
        if not better:
            break
        chosen, taken = max(better, key=lambda one: one[0].held_out)
        reason += f"; they are likelier if {taken[1]}"
        left = [variant for _, variant in trials if variant is not taken]
    return chosen, reason


def most_agreeing(
    answers: AnswersOnly, tried: list[PriorTrial], options: dict[str, Any]
) -> PriorTrial:
    """Of trials that held-out answers cannot tell apart the one whose clusters say what answers do.

    Of pairs that were asked about once, and share no item, no answer tells another, and priors
    differ in whether they believe them. So each is fitted to all answers: the first, unless
    the answers agree with the clusters of another clearly more often. One cluster of all items
    stays, as others than that explain single errors.

    Parameters
    ----------
    answers
        All of them, which are about pairs.
    tried
        The trials.
    options
        Of the fits.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C in one of these.
    """
    found: list[Float[Tensor, " answer"]] = []
    for trial in tried:
        result = whole(answers.for_trials().recipe(answers.priors[trial.prior]()).fit(**options))
        if not found and len(np.unique(result.assignments)) == 1:
            return tried[0]
        assert result.data.answers is not None  # about pairs
        found.append(_agreeing(result.data.answers, torch.tensor(result.assignments)))
    best = max(range(len(found)), key=lambda place: float(found[place].mean()))
    return tried[best if is_clearly_better(found[best], found[0], CLEAR) else 0]


def _agreeing(
    answers: Answers, labels: Int[Tensor, " item"]
) -> Float[Tensor, " answer_of_who_can_tell"]:
    """How far each answer says what the clusters do, ``1 - |L_p - [z_i = z_j]|``."""
    found = (labels[answers.left] == labels[answers.right]).double()
    agreeing = 1 - (answers.label - found).abs()
    return agreeing[~agreeing.isnan()]


def _tells(sizes: Int[np.ndarray, " cluster"], share_joined: float) -> bool:
    """Whether clusters of such sizes join items, among them those that people called the same."""
    return len(sizes) < int(sizes.sum()) and share_joined >= _MIN_SAME


def agreement(result: Fitted) -> tuple[float, int, float]:
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
    said_same = answers.label.nansum()
    share_joined = (answers.label * together[pairs.pair]).nansum() / said_same if said_same else 1.0
    joined = pairs.num_within(labels) - int(together.sum())
    return float(_agreeing(answers, labels).mean()), joined, float(share_joined)


def simplest(tried: list[PriorTrial], likeliest: PriorTrial, as_close: float) -> PriorTrial:
    """Of trials that are not worse than the likeliest the one with the fewest clusters.

    Of several answers about one pair the others tell what is held out, whatever the clusters are.
    So another is preferred that agrees with as many of the answers, or nearly, though it joins less
    than half as many pairs that nobody was asked about. So does that of records, where people were
    asked about pairs that look alike; where pairs are random it agrees with fewer. How near is
    ``as_close``.
    """
    best = likeliest.log_probabilities
    as_good = [
        trial for trial in tried if not is_clearly_better(best, trial.log_probabilities, CLEAR)
    ]
    fewest = min(as_good, key=lambda trial: trial.effective)
    saying_less = [
        trial
        for trial in as_good
        if trial.joined < fewest.joined / 2 and trial.agreement > fewest.agreement - as_close
    ]
    return min(saying_less, key=lambda trial: trial.joined, default=fewest)
