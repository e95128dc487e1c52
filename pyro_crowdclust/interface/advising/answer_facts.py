"""What is found out about the answers of a fit, on which advice depends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from pyro_crowdclust.annotators import informative_workers
from pyro_crowdclust.interface.advising.kinds_seen import kinds_seen
from pyro_crowdclust.interface.candidates.forms import ANSWERS
from pyro_crowdclust.interface.choosing.answer_predictiveness import answers_predict_each_other
from pyro_crowdclust.interface.choosing.explaining import (
    ExplainAnswers,
    drawn_explanation,
    is_explained_worse,
)
from pyro_crowdclust.protocols import SupportsPartition, SupportsWorkers
from pyro_crowdclust.results import Chosen, Fitted, step_of

# Answers of a worker are informative if each counts at least this many nats.
_MIN_WEIGHT = 1.0
# Where more than this share of the answers is one label, they say nothing about the pairs.
_NEARLY_ALL = 0.95
# Workers who nearly always give the same answer are named if they gave this share of all answers.
_MIN_SHARE = 0.2
# Where "same" is said about less than this share of the pairs that share a cluster, of a model that
# was given, it is tested whether the answers explain each other better.
_MIN_SENSITIVITY = 0.65
# Features show little of what the crowd sees if the log-probability of held-out answers exceeds
# that of chance by no more than this, in nats an answer.
_MIN_GAIN = 0.01


@dataclass(frozen=True)
class AnswerFacts:
    """What is found out about the answers of a fit.

    Attributes
    ----------
    result
        The fit.
    are_few
        There are too few answers about pairs to hold some out in the choice of the model.
    is_unclear
        There are no features, and the answers did not decide the choice.
    are_used
        The clusters were learned from the answers, too, as the choice has decided.
    only_word
        The label that nearly all answers have, if there is one.
    uninformative
        Workers who nearly always give the same answer (``uninformative``).
    are_opposite
        Most answers come from workers who say the opposite of what the clusters show.
    are_guesses
        Most answers come from workers whose answers carry almost no weight.
    kinds_seen
        Whether these see "finer" or "coarser" kinds than the clusters; None if they see neither.
    are_unexplained
        Partitions of the answers alone explain them better than the clusters do.
    are_blamed
        The same for a model that was given, by whose clusters workers hardly say "same" of the
        same, though answers predict each other.
    are_alone
        There are no features.
    form_clusters
        The clusters of the chosen model are those of the answers.
    are_unpredicted
        Answers about other items are hardly predicted better than by chance.
    """

    result: Fitted
    are_few: bool
    is_unclear: bool
    are_used: bool
    only_word: str | None
    uninformative: pd.Index
    are_opposite: bool
    are_guesses: bool
    kinds_seen: str | None
    are_unexplained: bool
    are_blamed: bool
    are_alone: bool
    form_clusters: bool
    are_unpredicted: bool

    @staticmethod
    def of(result: Fitted) -> AnswerFacts:
        """The facts of a fit."""
        weight, chosen = result.workers["weight"], result.chosen
        are_guesses = _share_of_answers(result, weight < _MIN_WEIGHT) > 0.5
        are_alone = isinstance(result.guide, SupportsPartition)
        return AnswerFacts(
            result,
            are_few=are_few(result),
            is_unclear=are_alone and chosen is not None and not chosen.is_clear,
            are_used=answers_are_used(result),
            only_word=_only_word(result),
            uninformative=uninformative(result),
            are_opposite=_share_of_answers(result, weight < -_MIN_WEIGHT) > 0.5,
            are_guesses=are_guesses,
            kinds_seen=kinds_seen(result, (weight < _MIN_WEIGHT).to_numpy())
            if are_guesses
            else None,
            are_unexplained=step_of(result, ExplainAnswers) is not None,
            are_blamed=_are_blamed(result),
            are_alone=are_alone,
            form_clusters=chosen is not None and _is_of_answers(chosen),
            are_unpredicted=chosen is not None and _is_no_better_than_chance(chosen),
        )


def is_disputed(result: Fitted) -> bool:
    """Whether all items are in one cluster, though the crowd often said "different"."""
    answers = result.data.answers
    if answers is None or are_few(result) or answers.label.nanmean() >= 0.8:
        return False
    if len(uninformative(result)):  # that is what to change first
        return False
    return bool((result.clusters["assigned_items"] > 0).sum() == 1)


def answers_are_used(result: Fitted) -> bool:
    """Whether the clusters were learned from the answers, too, as the choice has decided."""
    return result.chosen is None or result.chosen.uses_answers


def are_few(result: Fitted) -> bool:
    """Whether there are too few answers about pairs to hold some out in the choice of the model."""
    chosen, data = result.chosen, result.data
    if chosen is None or "uses_answers" not in chosen.table or chosen.chance is not None:
        return False
    return data.has_answers and data.known is None and data.links is None


def uninformative(result: Fitted) -> pd.Index:
    """Workers who nearly always give the same answer, by falling number of answers.

    Empty if they gave few of the answers, or if there are no answers about pairs.
    """
    data = result.data
    answers = data.answers
    if answers is None or not isinstance(result.guide, SupportsWorkers):
        return data.worker_ids[:0]
    informative = informative_workers(answers.worker, answers.label, data.num_workers).numpy()
    number = np.bincount(answers.worker.numpy(), minlength=data.num_workers)
    if number[~informative].sum() < _MIN_SHARE * number.sum():
        return data.worker_ids[:0]
    order = np.argsort(-number, kind="stable")
    return data.worker_ids[order[~informative[order]]]


def _only_word(result: Fitted) -> str | None:
    """The label that nearly all answers have, if there is one."""
    answers = result.data.answers
    share = 0.5 if answers is None else float(answers.label.nanmean())
    return "same" if share > _NEARLY_ALL else "different" if share < 1 - _NEARLY_ALL else None


def _share_of_answers(result: Fitted, workers: pd.Series) -> float:
    """Share of the answers that come from these workers (a mask)."""
    number = result.workers["answers"]
    return float(number[workers].sum() / number.sum())


def _is_of_answers(chosen: Chosen) -> bool:
    """Whether the chosen coordinates of the features are where the answers put the items."""
    winner = chosen.table[chosen.table["chosen"]]
    if chosen.chance is None or "features" not in winner:
        return False
    return bool((winner["features"] == ANSWERS.features).any())


def _is_no_better_than_chance(chosen: Chosen) -> bool:
    """Whether held-out answers are not clearly better predicted than by chance."""
    if chosen.chance is None:
        return False
    return not chosen.held_out > chosen.chance + _MIN_GAIN  # nor where nothing was held out (NaN)


def _are_blamed(result: Fitted) -> bool:
    """Whether a model that was given explains the answers worse than they explain each other."""
    workers = result.workers
    if result.chosen is not None or "sensitivity" not in workers:
        return False
    if np.average(workers["sensitivity"], weights=workers["answers"]) >= _MIN_SENSITIVITY:
        return False
    drawn = drawn_explanation(result)
    if drawn is None or not is_explained_worse(result, drawn):
        return False
    return answers_predict_each_other(drawn.data, result.seed)
