"""Which prior of cluster sizes is chosen, of those that were tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.interface.answers_alone.kinds import KindOfAnswers, SupportsHalves
from pyro_crowdclust.interface.answers_alone.prior_trials import CLEAR, PriorTrial, agreeing_with
from pyro_crowdclust.interface.answers_alone.records import (
    lists_candidates,
    takes_likeness_of_features,
)
from pyro_crowdclust.pooling.comparison import is_clearly_better
from pyro_crowdclust.training import uninterrupted

# A prior with more clusters may agree with this much fewer answers. With random pairs, clusters
# that are too many contradict .05 of the answers or more, records .02 at most. Pairs that look
# similar favour many clusters, unless more answers contradict these.
_MAX_LOSS, _MAX_LOSS_SIMILAR = 0.03, 0.1
# With three answers about each random pair, clusters that are too many join .3 to .93 of the
# answers "same" that others join, records of random pairs all.
_LEAST_KEPT = 0.95
# So many times as often, pairs that were chosen to be asked about are in one cluster as others are:
# in any clusters, and in small ones, which follow the answers about random pairs, too (1 to 5 times
# as often, 26 times and more for records).
_CHOSEN_PAIRS, _CHOSEN_BY_SMALL = 2.0, 10.0
# Tries a prior on answers.
Attempt = Callable[[str, KindOfAnswers], PriorTrial]


def informative(trials: list[PriorTrial]) -> list[PriorTrial]:
    """The trials that join items; all, if there are none.

    If likeness does not depend on the cluster, it may predict answers though no items are joined:
    such a prior finds no clusters.
    """
    return [trial for trial in trials if trial.is_informative] or trials


def fallback(trials: list[PriorTrial]) -> PriorTrial:
    """The first trial; but if it joins no items, the likeliest of those that do, if clearly so.

    Partitions that join nothing are no cautious guess: they are sure that all pairs differ.
    """
    first = trials[0]
    if first.is_informative:
        return first
    likelier = [
        trial
        for trial in trials
        if trial.is_informative
        and trial.answers.variant == first.answers.variant
        and is_clearly_better(trial.log_probabilities, first.log_probabilities, CLEAR)
    ]
    return max(likelier, key=lambda trial: trial.held_out, default=first)


def best_predicting(
    answers: KindOfAnswers,
    trials: list[PriorTrial],
    likeliest: PriorTrial,
    attempt: Attempt,
) -> tuple[PriorTrial, str]:
    """The best trial, and why, where held-out answers are predicted clearly better than by chance.

    Variants are tried under the chosen prior only.
    """
    max_loss = _MAX_LOSS_SIMILAR if answers.look_alike else _MAX_LOSS
    are_chosen = lists_candidates(answers.data)
    simple = simplest(informative(trials), likeliest, max_loss, are_chosen)
    reason = _reason(simple, likeliest, trials)
    chosen, as_halves = by_halves(simple, attempt)
    # Hard items include the model without them, so that they need no clear advantage, except where
    # features measure similarity.
    errors = 1.0 if takes_likeness_of_features(answers.data) else 0.0
    chosen, likelier_if = varied(chosen, attempt, errors)
    return chosen, reason + as_halves + likelier_if


def _reason(chosen: PriorTrial, likeliest: PriorTrial, trials: list[PriorTrial]) -> str:
    """Why it was chosen, where held-out answers are predicted clearly better than by chance."""
    reason = f"held-out answers are likeliest under {chosen.prior}"
    if chosen is not likeliest:
        joins_less = "joins far fewer pairs that nobody was asked about"
        simpler = (
            "and the former has no more clusters"
            if chosen.effective <= likeliest.effective
            else f"and the former {joins_less}"
        )
        reason = (
            f"held-out answers are about as likely under {chosen.prior} as under "
            f"{likeliest.prior}, {simpler}"
        )
        if is_clearly_better(likeliest.log_probabilities, chosen.log_probabilities, CLEAR):
            reason = (
                f"held-out answers are likelier under {likeliest.prior}, but {chosen.prior} "
                f"{joins_less} than another that agrees with no more answers"
            )
    uninformative = [trial.prior for trial in trials if not trial.is_informative]
    if 0 < len(uninformative) < len(trials):
        reason += f"; under {' and '.join(uninformative)} almost no items would be the same"
    return reason


def simplest(
    trials: list[PriorTrial], likeliest: PriorTrial, max_loss: float, are_chosen: bool = False
) -> PriorTrial:
    """The trial with the fewest clusters among those that are not worse than the likeliest.

    If there are several answers about a pair, the others predict a held-out one, whatever the
    clusters are. So if pairs were chosen to be asked about, held-out answers do not bear out that
    others are the same, and a trial is preferred that joins less than half as many of these,

    - if it agrees with as many answers, even if held-out answers are less likely: clusters that
      explain fewer answers are not why they are likelier. In its own clusters, asked pairs must be
      far more frequent than others, which shows that they were chosen. Of several such trials, the
      one that agrees with most answers is taken.
    - Or if it is not worse than the likeliest and agrees with almost as many answers (by
      ``max_loss``). For records, where people were asked about similar pairs, there is such a
      trial; with random pairs, it agrees with fewer answers, or, if most of these are "different",
      with fewer answers "same". The latter counts only if people were asked about any pairs: not
      if it is known that these were chosen (``are_chosen``), or if the fewest clusters show it.
    """
    best = likeliest.log_probabilities
    as_good = [
        trial for trial in trials if not is_clearly_better(best, trial.log_probabilities, CLEAR)
    ]
    fewest = min(as_good, key=lambda trial: trial.effective)
    agreeing = [
        trial
        for trial in _joining_less(trials, fewest)
        if trial.agreement >= fewest.agreement and trial.lift > _CHOSEN_BY_SMALL
    ]
    fewest = max(agreeing, key=lambda trial: trial.agreement, default=fewest)
    are_any = not are_chosen and fewest.lift < _CHOSEN_PAIRS
    least_kept = _LEAST_KEPT if are_any else 0.0
    nearly_agreeing = [
        trial
        for trial in _joining_less(as_good, fewest)
        if trial.agreement > fewest.agreement - max_loss
        and trial.share_joined > least_kept * fewest.share_joined
    ]
    return min(nearly_agreeing, key=lambda trial: trial.joined, default=fewest)


def _joining_less(trials: list[PriorTrial], other: PriorTrial) -> list[PriorTrial]:
    """The trials that join less than half as many pairs that nobody was asked about."""
    return [trial for trial in trials if trial.joined < other.joined / 2]


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
    answers: KindOfAnswers, trials: list[PriorTrial], options: dict[str, Any]
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
    trials
        The trials.
    options
        Options of the fits.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C in one of the fits.
    """
    found: list[Float[Tensor, " answer"]] = []
    for trial in trials:
        result = uninterrupted(
            answers.for_trials().recipe(answers.priors[trial.prior]()).fit(**options)
        )
        if not found and len(np.unique(result.assignments)) == 1:
            return trials[0]
        found.append(agreeing_with(result.data.needed_answers, torch.tensor(result.assignments)))
    best = max(range(len(found)), key=lambda place: float(found[place].mean()))
    return trials[best if is_clearly_better(found[best], found[0], CLEAR) else 0]
