"""Trials of priors of cluster sizes: how likely held-out answers are under each."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust import Fitted
from pyro_crowdclust.data import Answers
from pyro_crowdclust.interface.answers_alone.kinds import KindOfAnswers, SupportsHalves
from pyro_crowdclust.partitions import AskedPairs
from pyro_crowdclust.pooling.comparison import is_clearly_better
from pyro_crowdclust.training import is_interrupted, uninterrupted

# Held-out answers are clearly likelier under one prior than another by this many standard errors,
# as the best of several looks better than it is.
CLEAR = 2.0
# Clusters contain at least this share of the answers "same"; otherwise almost no items are joined.
_MIN_SAME = 0.05
# With three answers about each random pair, clusters that are too many join .3 to .93 of the
# answers "same" that others join, records of random pairs all.
_LEAST_KEPT = 0.95
# So many times as often, pairs that were chosen to be asked about are in one cluster as others are.
_CHOSEN_PAIRS = 2.0
# The share of answers that a fit to all answers may agree with less than the fits on trial.
_MAX_MISSED = 0.1


class PriorTrial(NamedTuple):
    """A prior, and the log-probability of held-out answers (or of pages, per placement).

    ``of_halves`` is that of the halves of the scale in which held-out grades are.
    """

    prior: str
    answers: KindOfAnswers
    log_probabilities: Float[Tensor, " answer"]
    sizes: Int[np.ndarray, " cluster"]
    seconds: float
    is_whole: bool = True
    agreement: float = 0.0
    joined: int = 0
    share_joined: float = 1.0
    lift: float = 1.0
    of_halves: Float[Tensor, " answer"] | None = None

    @property
    def name(self) -> str:
        return self.prior + self.answers.variant

    @property
    def counts_halves(self) -> bool:
        """Whether grades say no more than in which half of their scale they are."""
        return isinstance(self.answers, SupportsHalves) and self.answers.halves

    @property
    def held_out(self) -> float:
        return float(self.log_probabilities.mean())

    @property
    def clusters(self) -> int:
        return len(self.sizes)

    @property
    def is_informative(self) -> bool:
        """Whether clusters join items, among them some that people called the same."""
        return _is_informative(self.sizes, self.share_joined)

    def holds_in(self, result: Fitted) -> bool:
        """Whether a fit to all answers found clusters that agree with as many answers.

        The posterior has several modes, and the fit may find another than the fits on trial.
        """
        return clusters_hold(result, self.agreement, self.is_informative)

    @property
    def effective(self) -> float:
        """The effective number of clusters: ``exp H`` of their shares."""
        from scipy.stats import entropy  # late: loading it takes a while

        return float(np.exp(entropy(self.sizes)))


# Tries a prior on answers.
Attempt = Callable[[str, KindOfAnswers], PriorTrial]


def trial_of(
    answers: KindOfAnswers,
    parts: list[Bool[Tensor, " unit"]],
    prior: str,
    options: dict[str, Any],
) -> PriorTrial:
    """Fit without each part in turn, until Ctrl-C, and score the part."""
    started, log_probabilities, of_halves, is_whole = time.perf_counter(), [], [], True
    for out in parts:
        kept = answers.without(out).for_trials()
        result = kept.recipe(answers.priors[prior]()).fit(**options)
        log_probabilities.append(answers.log_probability(result, out))
        log_half = answers.log_half(result, out) if isinstance(answers, SupportsHalves) else None
        of_halves += [] if log_half is None else [log_half]
        if is_interrupted(result):
            is_whole = False
            break
    sizes, seconds = np.bincount(result.assignments), time.perf_counter() - started
    held_out = torch.cat(log_probabilities)
    found = agreement_and_joins(result)
    halves = torch.cat(of_halves) if of_halves else None
    return PriorTrial(prior, answers, held_out, sizes, seconds, is_whole, *found, halves)


def varied(chosen: PriorTrial, attempt: Attempt, errors: float) -> tuple[PriorTrial, str]:
    """The best variant of a trial, with variants added one by one as long as they improve it.

    Parameters
    ----------
    chosen
        The trial.
    attempt
        Tries a prior on answers.
    errors
        Number of standard errors by which held-out answers must be likelier under a variant.

    Returns
    -------
    The trial, and the end of a sentence with the reasons.
    """
    reason = ""
    while True:
        trials = [
            (attempt(chosen.prior, answers), assumption)
            for answers, assumption in chosen.answers.variants()
        ]
        better = [
            (trial, assumption)
            for trial, assumption in trials
            if (trial.is_informative or not chosen.is_informative)
            and is_clearly_better(trial.log_probabilities, chosen.log_probabilities, errors)
        ]
        if not better:
            return chosen, reason
        chosen, assumption = max(better, key=lambda one: one[0].held_out)
        reason += f"; they are likelier if {assumption}"


def by_halves(chosen: PriorTrial, attempt: Attempt) -> tuple[PriorTrial, str]:
    """The trial, or one in which only the halves of grades count, if that predicts these better.

    What several steps of a scale say is more than whether two items are the same, and clusters
    may be coarser for it. But "same" is at the upper end of the scale. So if clusters that only
    explain in which half the grades are predict it better, these are meant; they need no clear
    advantage, as what they ignore should help the others. The first prior is tried, too, as a fit
    finds one of several modes.

    Parameters
    ----------
    chosen
        The trial.
    attempt
        Tries a prior on answers.

    Returns
    -------
    The trial, and the end of a sentence with the reasons.
    """
    of_grades = chosen.answers
    answers = of_grades.with_halves() if isinstance(of_grades, SupportsHalves) else None
    if answers is None or chosen.of_halves is None:
        return chosen, ""
    priors = dict.fromkeys([next(iter(answers.priors)), chosen.prior])
    better = [
        (float(trial.of_halves.mean()), trial)
        for trial in (attempt(prior, answers) for prior in priors)
        if trial.is_informative
        and trial.of_halves is not None
        and is_clearly_better(trial.of_halves, chosen.of_halves, 0.0)
    ]
    if not better:
        return chosen, ""
    _, best = max(better, key=lambda one: one[0])
    return best, (
        f"; but under {best.prior} it is better predicted in which half of the scale they "
        'are, if only this half counts, of which the upper one means "same"'
    )


def most_agreeing(
    answers: KindOfAnswers, tried: list[PriorTrial], options: dict[str, Any]
) -> PriorTrial:
    """The trial whose clusters agree best with the answers, where no answer tells about another.

    Then none can be predicted, and priors differ in whether they trust the answers. So each prior
    is fitted to all answers. The first is returned, unless answers agree with the clusters of
    another clearly more often. If the first finds a single cluster, it is returned, too, as more
    clusters would explain single errors.

    This is not for answers that test each other: small clusters that follow the errors would agree
    best with them.

    Parameters
    ----------
    answers
        All answers, about pairs.
    tried
        The trials.
    options
        Options of the fits.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C in one of the fits.
    """
    found: list[Float[Tensor, " answer"]] = []
    for trial in tried:
        result = uninterrupted(
            answers.for_trials().recipe(answers.priors[trial.prior]()).fit(**options)
        )
        if not found and len(np.unique(result.assignments)) == 1:
            return tried[0]
        assert result.data.answers is not None  # about pairs
        found.append(_agreeing(result.data.answers, torch.tensor(result.assignments)))
    best = max(range(len(found)), key=lambda place: float(found[place].mean()))
    return tried[best if is_clearly_better(found[best], found[0], CLEAR) else 0]


def _agreeing(
    answers: Answers, labels: Int[Tensor, " item"]
) -> Float[Tensor, " answer_of_who_can_tell"]:
    """Agreement of each answer with the clusters, ``1 - |L_p - [z_i = z_j]|``."""
    found = (labels[answers.left] == labels[answers.right]).double()
    agreeing = 1 - (answers.label - found).abs()
    return agreeing[~agreeing.isnan()]


def _is_informative(sizes: Int[np.ndarray, " cluster"], share_joined: float) -> bool:
    """Whether clusters of these sizes join items, among them some that people called the same."""
    return len(sizes) < int(sizes.sum()) and share_joined >= _MIN_SAME


def agreement_and_joins(result: Fitted) -> tuple[float, int, float, float]:
    """Agreement of answers and clusters, number of joined pairs, share of joined answers, and lift.

    These are ``1 - (1 / P) sum_p |L_p - [z_i = z_j]|``; the number of pairs in one cluster that
    nobody was asked about; the share of the answers "same" that are about pairs in one cluster; and
    how many times as often pairs are in one cluster that people were asked about as others. Grades
    are between 0 and 1, and "can't tell" is left out. For sorted pages: 0, 0, 1 and 1.
    """
    answers, labels = result.data.answers, torch.tensor(result.assignments)
    if answers is None:
        return 0.0, 0, 1.0, 1.0
    pairs = AskedPairs.of(answers.items, result.data.num_items)
    together = pairs.together(labels)
    said_same = answers.label.nansum()
    share_joined = (answers.label * together[pairs.pair]).nansum() / said_same if said_same else 1.0
    asked, joined = int(together.sum()), pairs.num_within(labels) - int(together.sum())
    num_unasked = math.comb(pairs.num_items, 2) - pairs.num_pairs
    lift = (asked / pairs.num_pairs) * num_unasked / joined if joined else math.inf
    return float(_agreeing(answers, labels).mean()), joined, float(share_joined), lift


def clusters_hold(result: Fitted, agreement: float, is_informative: bool) -> bool:
    """Whether clusters agree with the answers as well as others did, or nearly, and join items.

    Parameters
    ----------
    result
        The fit.
    agreement
        The agreement of the others.
    is_informative
        Whether the others joined items.
    """
    agreeing, _, share_joined, _ = agreement_and_joins(result)
    joins = _is_informative(np.bincount(result.assignments), share_joined) or not is_informative
    return joins and agrees_as_well(agreeing, agreement)


def fallback(tried: list[PriorTrial]) -> PriorTrial:
    """The first trial; but if it joins no items, the likeliest of those that do, if clearly so.

    Partitions that join nothing are no cautious guess: they are sure that all pairs differ.
    """
    first = tried[0]
    likelier = [
        trial
        for trial in tried
        if trial.is_informative
        and trial.answers.variant == first.answers.variant
        and is_clearly_better(trial.log_probabilities, first.log_probabilities, CLEAR)
    ]
    if first.is_informative or not likelier:
        return first
    return max(likelier, key=lambda trial: trial.held_out)


def agrees_as_well(agreement: float, other: float) -> bool:
    """Whether an agreement with the answers is as good as another, or nearly."""
    return agreement >= other - _MAX_MISSED


def simplest(
    tried: list[PriorTrial], likeliest: PriorTrial, max_loss: float, are_chosen: bool = False
) -> PriorTrial:
    """The trial with the fewest clusters among those that are not worse than the likeliest.

    If there are several answers about a pair, the others predict a held-out one, whatever the
    clusters are. So a trial is preferred that agrees with the answers almost as well (by
    ``max_loss``), although it joins less than half as many pairs that nobody was asked about. For
    records, where people were asked about similar pairs, there is such a trial; with random pairs,
    it agrees with fewer answers, or, if most of these are "different", with fewer answers "same".
    The latter counts only if people were asked about any pairs: not if it is known that these were
    chosen (``are_chosen``), or if the fewest clusters show it.
    """
    best = likeliest.log_probabilities
    as_good = [
        trial for trial in tried if not is_clearly_better(best, trial.log_probabilities, CLEAR)
    ]
    fewest = min(as_good, key=lambda trial: trial.effective)
    are_any = not are_chosen and fewest.lift < _CHOSEN_PAIRS
    least_kept = _LEAST_KEPT if are_any else 0.0
    joining_less = [
        trial
        for trial in as_good
        if trial.joined < fewest.joined / 2
        and trial.agreement > fewest.agreement - max_loss
        and trial.share_joined > least_kept * fewest.share_joined
    ]
    return min(joining_less, key=lambda trial: trial.joined, default=fewest)
