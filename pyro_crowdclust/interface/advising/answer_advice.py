"""What is said of the answers of a fit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from pyro_crowdclust.errors import count, listed
from pyro_crowdclust.interface.advising.answer_facts import AnswerFacts, is_disputed
from pyro_crowdclust.interface.advising.constant_answers import SAME_ANSWER
from pyro_crowdclust.partitions import AskedPairs
from pyro_crowdclust.results import Fitted

# Without features: where at least this share of the items could not be placed, which are then in
# clusters of at most so many items.
_MIN_UNPLACED, _SMALL = 0.1, 2
# Answers "same" are rare below this share.
_RARE = 0.2
# Where pairs are listed, this share of the pairs in clusters may be others.
_MAX_UNLISTED = 0.5
# So many workers are named.
_NAMED = 3


def about_answers(answers: AnswerFacts) -> list[str]:
    """Advice where answers were not used, the crowd guesses, or the features show little of it."""
    return next((sentences(answers) for applies, sentences in _RULES if applies(answers)), [])


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
        *_about_unclear(answers),
    ]


def _opposite(answers: AnswerFacts) -> list[str]:
    return [
        f"most answers say the opposite of what the clusters show{_learned_from(answers)}; "
        f"{_check_order(answers.result)}"
    ]


def _not_used(answers: AnswerFacts) -> list[str]:
    what_else = ", or add features that show what the crowd sees"
    if answers.kinds_seen is not None:
        why = f"; judged by these clusters, most workers see {answers.kinds_seen} kinds"
    elif answers.are_guesses:
        why = "; judged by these clusters, most workers guess, or they see something else"
    elif answers.are_unexplained:
        why = "; these clusters do not explain the answers, so the crowd sees something else"
    else:
        why = (
            "; judged by these clusters, most workers see them, so that the answers may be too few "
            f"to show it{_about_rare_same(answers.result)}"
        )
        what_else = ""
    return [
        "answers about items that were not asked about before are not predicted clearly better "
        f"than by chance{_learned_from(answers)}{why}{_about_rates(answers)}; "
        f"{_ask_more(answers.result)}{what_else}"
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
    chosen = answers.result.chosen
    if chosen is not None and chosen.other_view:
        return []  # as is said of these workers
    return [
        "most answers come from workers who hardly agree with the clusters: they seem to guess, or "
        "see something else than the others; check the question that they were asked"
    ]


def _without_features(answers: AnswerFacts) -> list[str]:
    result = answers.result
    found = _about_unclear(answers) + _about_unplaced(result) + _about_unlisted(result)
    if is_disputed(result):
        said = 'all items are in one cluster, though the crowd often said "different"'
        found.append(f"{said}: {_check_order(result)}")
    return found


def _unexplained(answers: AnswerFacts) -> list[str]:
    return [
        "partitions found from the answers alone explain the answers better than the clusters do: "
        "the features show something else than the crowd sees, or show it less clearly than "
        "something else; leave out columns that say nothing about what the crowd was asked, add "
        "others that do, or ask about more pairs of the items that matter"
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
    (lambda answers: answers.is_unclear, _without_features),
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


def _about_rare_same(result: Fitted) -> str:
    """That answers "same" are rare, without which clusters are hardly better than chance."""
    said = result.data.answers
    if said is None or said.label.nanmean() > _RARE:
        return ""
    return f' (only {int((said.label == 1).sum())} of {said.num_pairs} are "same")'


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


def _about_unclear(answers: AnswerFacts) -> list[str]:
    """The reason of the choice, where answers without features did not decide it.

    Clusters that follow the errors make workers look good, with intervals that know of no others:
    these held about half of the true rates where the clusters were guesses.
    """
    chosen = answers.result.chosen
    if chosen is None or not answers.is_unclear:
        return []
    return [
        f"{chosen.reason}; the rates of workers, and their intervals, measure how far they agree "
        "with these clusters, and mean nothing if these are wrong: dismiss nobody because of them"
    ]


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


def _about_unlisted(result: Fitted) -> list[str]:
    """Advice where most pairs in clusters are of items that nothing compares.

    Lists of candidates leave out pairs that differ, which no held-out answer shows.
    """
    data = result.data
    if data.answers is None or data.likeness is None or data.features is not None:
        return []
    compared = AskedPairs.of(data.answers.items, data.num_items, data.likeness.items)
    labels = torch.tensor(result.assignments)
    joined = compared.num_within(labels)
    unlisted = joined - int(compared.together(labels).sum())
    if unlisted <= _MAX_UNLISTED * joined:
        return []
    return [
        f"{unlisted} of {count(joined, 'pair')} in one cluster are not in likeness=, and nobody "
        "was asked about them: unless they were left out at random, ask about some of them, as "
        'clusters are wrong where these are "different"'
    ]


def _check_order(result: Fitted) -> str:
    """What to check where "same" and "different" may be swapped."""
    right = '1 is "same" and 0 "different" in the answers'
    if len(result.data.grade_ids):
        right = 'grades go from "different" to "same" in grades='
    return f"check that {right}, and not the other way round"


def _ask_more(result: Fitted) -> str:
    return "ask about more pairs" if result.data.placements is None else "have more pages sorted"
