"""Trials of priors of cluster sizes: how likely held-out answers are under each."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust import Fitted
from pyro_crowdclust.data import Answers
from pyro_crowdclust.interface.answers_alone.kinds import KindOfAnswers, SupportsHalves
from pyro_crowdclust.partitions import AskedPairs
from pyro_crowdclust.training import is_interrupted

# Held-out answers are clearly likelier under one prior than another by this many standard errors,
# as the best of several looks better than it is.
CLEAR = 2.0
# Clusters contain at least this share of the answers "same"; otherwise almost no items are joined.
_MIN_SAME = 0.05
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
    def row(self) -> dict[str, Any]:
        """Its row in the table of the choice."""
        scores = {"held_out": self.held_out, "clusters": self.clusters}
        return {"prior": self.name, **scores, "seconds": self.seconds}

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


def agreeing_with(
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
    return float(agreeing_with(answers, labels).mean()), joined, float(share_joined), lift


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


def agrees_as_well(agreement: float, other: float) -> bool:
    """Whether an agreement with the answers is as good as another, or nearly."""
    return agreement >= other - _MAX_MISSED
