"""Advice about answers: what is found out about those of a fit, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pyro_crowdclust.annotators import informative_workers
from pyro_crowdclust.errors import count, listed
from pyro_crowdclust.interface.advising.constant_answers import SAME_ANSWER
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
# Without features: where at least this share of the items could not be placed, which are then in
# clusters of at most so many items.
_MIN_UNPLACED, _SMALL = 0.1, 2
# Where "same" is said about less than this share of the pairs that share a cluster, of a model that
# was given, it is tested whether the answers explain each other better.
_MIN_SENSITIVITY = 0.65
# So many workers are named.
_NAMED = 3
# Features show little of what the crowd sees if the log-probability of held-out answers exceeds
# that of chance by no more than this, in nats an answer.
_MIN_GAIN = 0.01


def about_answers(answers: AnswerFacts) -> list[str]:
    """Advice where answers were not used, the crowd guesses, or the features show little of it."""
    return next((sentences(answers) for applies, sentences in _RULES if applies(answers)), [])


@dataclass(frozen=True)
class AnswerFacts:
    """What is found out about the answers of a fit.

    Attributes
    ----------
    result
        The fit.
    are_few
        There are too few answers about pairs to hold some out in the choice of the model.
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
        return AnswerFacts(
            result,
            are_few=are_few(result),
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
            are_alone=isinstance(result.guide, SupportsPartition),
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


def _too_few(answers: AnswerFacts) -> list[str]:
    chosen = answers.result.chosen
    why = "there are too few answers to see whether they predict answers about other items"
    if chosen is not None and chosen.table["held_out"].notna().any():
        why = "the answers are too few to learn clusters from them that explain them"
    learned = ""
    if not answers.are_used:
        learned = (
            ", and components are learned from the features alone: answers can only select "
            "among such fits, lower the weight of the features, join components and move the "
            "items that they are about"
        )
    return [
        f"{why}{learned}{_about_rates(answers)}; {_ask_more(answers.result)}, or pass pairs that "
        "are certain as must_link and cannot_link"
    ]


def _one_word(answers: AnswerFacts) -> list[str]:
    return [
        f'nearly all answers are "{answers.only_word}", whatever the pair'
        f"{_learned_from(answers)}; check the wording of the question, or ask about pairs of "
        "both kinds"
    ]


def _same_answer(answers: AnswerFacts) -> list[str]:
    return [
        f"{SAME_ANSWER}, which says nothing about it (in workers: "
        f"{listed(answers.uninformative, _NAMED)})"
        f"{_learned_from(answers)}; leave their answers out, or ask them again",
        *_about_unclear(answers.result),
    ]


def _opposite(answers: AnswerFacts) -> list[str]:
    return [
        f"most answers say the opposite of what the clusters show{_learned_from(answers)}; "
        f"{_check_order(answers.result)}"
    ]


def _not_used(answers: AnswerFacts) -> list[str]:
    why = ""
    if answers.kinds_seen is not None:
        why = f"; judged by these clusters, most workers see {answers.kinds_seen} kinds"
    elif answers.are_guesses:
        why = "; judged by these clusters, most workers guess, or they see something else"
    elif answers.are_unexplained:
        why = "; these clusters do not explain the answers, so the crowd sees something else"
    return [
        "answers about items that were not asked about before are not predicted clearly better "
        f"than by chance{_learned_from(answers)}{why}{_about_rates(answers)}; "
        f"{_ask_more(answers.result)}, or add features that show what the crowd sees"
    ]


def _guesses(answers: AnswerFacts) -> list[str]:
    seen = answers.kinds_seen
    if seen is not None:
        what = "divide clusters" if seen == "finer" else "join clusters"
        return [
            f"most answers come from workers who see {seen} kinds than the clusters: their answers "
            f"{what}, but rarely contradict them otherwise; check the question that they were "
            "asked, or leave out those who do not see what you look for"
        ]
    return [
        "most answers come from workers who hardly agree with the clusters: they seem to guess, or "
        "see something else than the others; check the question that they were asked"
    ]


def _without_features(answers: AnswerFacts) -> list[str]:
    result = answers.result
    found = _about_unclear(result) + _about_unplaced(result)
    if is_disputed(result):
        said = 'all items are in one cluster, though the crowd often said "different"'
        found.append(f"{said}: {_check_order(result)}")
    return found


def _unexplained(answers: AnswerFacts) -> list[str]:
    return [
        "the features show something else than the crowd sees: partitions found from the "
        "answers alone explain the answers better than the clusters do; use other features, or "
        "ask about more pairs of the items that matter"
    ]


def _blamed(answers: AnswerFacts) -> list[str]:
    return [
        'by these clusters workers hardly say "same" of what is the same, though their answers '
        "predict each other: the model may not suit the columns; leave components=, networks= and "
        "supervision= out, so that one is chosen, or use other features"
    ]


def _of_answers(answers: AnswerFacts) -> list[str]:
    return [
        "the features show little of what the crowd sees, so that the clusters are those of "
        "the answers: ask about the items without answers, or use other features"
    ]


def _unpredicted(answers: AnswerFacts) -> list[str]:
    return [
        "the features show little of what the crowd sees: answers about items that it was not "
        "asked about are predicted hardly better than by chance; ask about more items, or use "
        "other features"
    ]


# The first that applies says all: what must be changed first stands first.
_RULES: tuple[tuple[Callable[[AnswerFacts], bool], Callable[[AnswerFacts], list[str]]], ...] = (
    (lambda answers: answers.are_few, _too_few),
    (lambda answers: not answers.are_used and answers.only_word is not None, _one_word),
    (lambda answers: answers.are_blamed, _blamed),
    (lambda answers: len(answers.uninformative) > 0, _same_answer),
    (lambda answers: answers.are_opposite, _opposite),
    (lambda answers: not answers.are_used, _not_used),
    (lambda answers: _is_unclear(answers.result), _without_features),
    (lambda answers: answers.are_guesses, _guesses),
    (lambda answers: answers.are_alone, _without_features),
    (lambda answers: answers.are_unexplained, _unexplained),
    (lambda answers: answers.form_clusters, _of_answers),
    (lambda answers: answers.are_unpredicted, _unpredicted),
)


def _learned_from(answers: AnswerFacts) -> str:
    """That the clusters are learned from the features alone, where they are."""
    if answers.are_used:
        return ""
    return (
        ", and the clusters are learned from the features alone: answers move only the items "
        "that they are about"
    )


def _about_rates(answers: AnswerFacts) -> str:
    """That the rates of workers mean nothing, where these had no part in the clusters.

    Workers who see something else are shown as guessing, with narrow intervals, and whoever says
    the opposite of them may be shown as better. Rates that are estimated from partitions of the
    answers (``are_unexplained``) do not depend on the clusters.
    """
    if answers.are_used or answers.are_unexplained or not answers.are_guesses:
        return ""
    return (
        "; the rates of workers, and their intervals, measure how far they agree with these "
        "clusters, not how good they are at what they were asked: dismiss nobody because of them"
    )


def _about_unclear(result: Fitted) -> list[str]:
    """The reason of the choice, where answers without features did not decide it.

    Clusters that follow the errors make workers look good, with intervals that know of no others:
    these held about half of the true rates where the clusters were guesses.
    """
    chosen = result.chosen
    if chosen is None or not _is_unclear(result):
        return []
    return [
        f"{chosen.reason}; the rates of workers, and their intervals, measure how far they agree "
        "with these clusters, and mean nothing if these are wrong: dismiss nobody because of them"
    ]


def _is_unclear(result: Fitted) -> bool:
    """Whether answers without features did not decide the choice."""
    chosen, is_alone = result.chosen, isinstance(result.guide, SupportsPartition)
    return is_alone and chosen is not None and not chosen.is_clear


def _about_unplaced(result: Fitted) -> list[str]:
    """Advice where most clusters are items of which the answers do not show where they belong.

    An item that is with others in some draws, but in most draws with none of them, has a cluster of
    its own in the consensus.
    """
    assigned, items = result.assignments, result.data.annotated_items.numpy()
    sizes = np.bincount(assigned)
    is_small = sizes <= _SMALL
    unplaced = is_small[assigned[items]] & (result.assignment_probabilities[items] < 0.5)
    if unplaced.mean() < _MIN_UNPLACED:
        return []
    larger = sizes[~is_small]
    return [
        f"{unplaced.sum()} of {count(len(items), 'item')} could not be placed: each is in a "
        f"cluster of one or two items, and even there with a probability below one half; so the "
        f"number of clusters, {len(sizes)}, says little ({len(larger)} of them are larger, and "
        f"hold {count(int(larger.sum()), 'item')}); {_ask_more(result)}"
    ]


def _check_order(result: Fitted) -> str:
    """What to check where "same" and "different" may be swapped."""
    right = '1 is "same" and 0 "different" in the answers'
    if len(result.data.grade_ids):
        right = 'grades go from "different" to "same" in grades='
    return f"check that {right}, and not the other way round"


def _ask_more(result: Fitted) -> str:
    return "ask about more pairs" if result.data.placements is None else "have more pages sorted"
