"""Advice about settings and data in plain sentences, from the diagnostics of a fit."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pyro_crowdclust.annotators import informative_workers
from pyro_crowdclust.data.tables import count, listed
from pyro_crowdclust.diagnostics import find_lapses
from pyro_crowdclust.interface.candidates.forms import ANSWERS
from pyro_crowdclust.interface.choosing.explaining import ExplainingTraining
from pyro_crowdclust.interface.choosing.shared_mistakes import find_shared_mistakes
from pyro_crowdclust.interface.command_line.label_advice import about_labels
from pyro_crowdclust.models import PairRegression
from pyro_crowdclust.protocols import (
    SupportsLapses,
    SupportsMixture,
    SupportsPartition,
    SupportsWorkers,
    part_of,
)
from pyro_crowdclust.results import Fitted, known_or_likeliest
from pyro_crowdclust.training import Ending
from pyro_crowdclust.training.settling import still_rises

# Answers of a worker are informative if each counts at least this many nats.
_MIN_WEIGHT = 1.0
# Pages that are careless with more than this probability should be left out.
_CARELESS = 0.9
# Where more than this share of the answers is one label, they say nothing about the pairs.
_NEARLY_ALL = 0.95
# Workers who nearly always give the same answer are named if they gave this share of all answers.
_MIN_SHARE = 0.2
# A class that has labels should have other items, too, if it has none by chance with less than this
# probability.
_UNLIKELY = 0.01
# Without features: where at least this share of the items could not be placed, which are then in
# clusters of at most so many items.
_MIN_UNPLACED, _SMALL = 0.1, 2
# So many of them are named.
_NAMED = 3
# Features show little of what the crowd sees if the log-probability of held-out answers exceeds
# that of chance by no more than this, in nats an answer.
_MIN_GAIN = 0.01


def advice(result: Fitted) -> list[str]:
    """What to change about settings or data, a sentence each; empty if nothing stands out.

    - Clusters collapsed: all items are in one, though the crowd often said "different". Without
      features: the labels "same" and "different" may be swapped.
    - More clusters are needed: every cluster has items, and a larger number was not allowed.
    - Same and different are swapped: most answers come from workers who say the opposite.
    - Some workers nearly always give the same answer, though others do not: they say nothing.
    - The crowd guesses: most answers come from workers whose answers carry almost no weight.
    - The chosen model does not learn clusters from the answers: they are too few, nearly all have
      the same label, or they are not predicted clearly better than by chance.
    - Known classes have no cluster of their own: the features show other kinds than the labels. Or
      they have one without any other item.
    - There are no features, and no prior predicts held-out answers clearly better than chance; or
      many items could not be placed, so that there seem to be far more clusters than there are.
    - The features show something else than the crowd sees: the clusters do not explain the answers.
    - The features show little of what the crowd sees: the clusters are those of the answers; or
      they are learned from the answers, too, but answers about other items are predicted hardly
      better than by how often workers say "same".
    - Two workers make the same mistakes, so that they confirm each other.
    - Some workers always give the same class label, though others do not.
    - Workers lapsed: pages of pairs look as if they were answered without looking.
    - The ELBO was still rising when the epochs were used up.

    Examples
    --------
    >>> import numpy as np
    >>> from pyro_crowdclust.interface import advice, cluster
    >>> features = np.random.default_rng(0).normal([[0.0], [9.0]], size=(2, 50)).reshape(-1, 1)
    >>> advice(cluster(features, num_clusters=3, progress=False))
    []
    """
    found = []
    if isinstance(result.guide, SupportsMixture):
        found += _about_clusters(result) + _about_classes(result)
    has_workers = result.data.has_answers and isinstance(result.guide, SupportsWorkers)
    if has_workers and not (found and _answers_are_used(result)):
        found += _about_answers(result) or _about_lapses(result)
    if has_workers:
        found += _about_shared_mistakes(result)
    found += about_labels(result)
    if _still_rising(result):
        found.append("the ELBO was still rising at the end: train for more epochs")
    return found


def _about_clusters(result: Fitted) -> list[str]:
    """Advice where the clusters collapsed, or where there may be more of them."""
    if isinstance(result.model, PairRegression) and not result.data.has_answers:
        return []  # the clusters are the known classes
    assigned = result.clusters["assigned_items"]
    if _is_disputed(result):
        return [
            'all items are in one cluster, though the crowd often said "different": the clusters '
            "collapsed; try more starts, or other features"
        ]
    number = len(assigned)
    # Where the number was chosen, larger ones could be tried, unless it is the largest allowed.
    is_bound = result.chosen is None or number == result.chosen.most_components
    if number == 1 or not is_bound or not (assigned > 0).all():
        return []
    if number + 1 >= result.data.num_items:  # one more, and every item is a cluster of its own
        return []
    return [f"all {number} clusters have items, so there may be more: allow a larger number"]


def _about_classes(result: Fitted) -> list[str]:
    """Advice where items of a class are in clusters of other classes, or nowhere."""
    data = result.data
    if data.known is None or data.num_known_classes < 2:
        return []
    known = data.known.numpy()
    labelled = known >= 0
    table = np.zeros((int(result.assignments.max()) + 1, data.num_known_classes), int)
    np.add.at(table, (result.assignments[labelled], known[labelled]), 1)
    homes = {*table[table.any(1)].argmax(1).tolist()}
    homeless = [code for code in np.unique(known[labelled]).tolist() if code not in homes]
    alone = [code for code in _without_others(result) if code not in homeless]
    what_to_do = "label more items, above all of these classes, or use other features"
    found = []
    if homeless:
        names = listed(list(data.known_ids[homeless]), _NAMED)
        found.append(
            "the features show other kinds than the labels: no cluster is mainly of class "
            f"{names}; {what_to_do}"
        )
    if alone:
        names = listed(list(data.known_ids[alone]), _NAMED)
        found.append(
            f"no item without a label is likeliest of class {names}: unless the labelled items are "
            f"all there are, {what_to_do}"
        )
    return found


def _without_others(result: Fitted) -> list[int]:
    """Codes of classes that no item without a label gets, though some should, by their labels."""
    known = result.data.known
    assert known is not None  # as the caller has seen
    labelled = known.numpy() >= 0
    classes, counts = np.unique(known.numpy()[labelled], return_counts=True)
    others = known_or_likeliest(result)[~labelled]
    by_chance = (1 - counts / counts.sum()) ** len(others)
    return classes[~np.isin(classes, others) & (by_chance < _UNLIKELY)].tolist()


def _is_disputed(result: Fitted) -> bool:
    """Whether all items are in one cluster, though the crowd often said "different"."""
    answers = result.data.answers
    if answers is None or _are_few(result) or answers.label.nanmean() >= 0.8:
        return False
    if len(_uninformative(result)):  # that is what to change first
        return False
    return bool((result.clusters["assigned_items"] > 0).sum() == 1)


def _about_answers(result: Fitted) -> list[str]:
    """Advice where answers were not used, the crowd guesses, or the features show little of it."""
    chosen = result.chosen
    alone = ""
    if not _answers_are_used(result):
        alone = (
            ", and the clusters are learned from the features alone: answers move only the items "
            "that they are about"
        )
    if _are_few(result):
        if alone:
            alone = (
                ", and components are learned from the features alone: answers can only select "
                "among such fits, lower the weight of the features, join components and move the "
                "items that they are about"
            )
        why = "there are too few answers to see whether they predict answers about other items"
        if chosen is not None and chosen.table["held_out"].notna().any():
            why = "the answers are too few to learn clusters from them that explain them"
        return [
            f"{why}{alone}; {_ask_more(result)}, or pass pairs that are certain as must_link and "
            "cannot_link"
        ]
    if alone and (word := _only_word(result)):
        return [
            f'nearly all answers are "{word}", whatever the pair{alone}; check the wording of the '
            "question, or ask about pairs of both kinds"
        ]
    if len(names := _uninformative(result)):
        same = (
            "some workers nearly always give the same answer, whatever the pair, which says "
            f"nothing about it (in workers: {listed(names, _NAMED)}){alone}; leave their answers "
            "out, or ask them again"
        )
        return [same, *_about_unclear(result)]
    weight = result.workers["weight"]
    if _share_of_answers(result, weight < -_MIN_WEIGHT) > 0.5:
        return [
            f"most answers say the opposite of what the clusters show{alone}; "
            f"{_check_order(result)}"
        ]
    guesses = _share_of_answers(result, weight < _MIN_WEIGHT) > 0.5
    sees_others = isinstance(result.train_on, ExplainingTraining)
    if alone:
        why = ""
        if guesses:
            why = "; judged by these clusters, most workers guess, or they see something else"
        elif sees_others:
            why = "; these clusters do not explain the answers, so the crowd sees something else"
        return [
            "answers about items that were not asked about before are not predicted clearly better "
            f"than by chance{alone}{why}; {_ask_more(result)}, or add features that show what the "
            "crowd sees"
        ]
    if guesses:
        return [
            "most answers come from workers who seem to guess, as they agree neither with each "
            "other nor with any other evidence: check the question that they were asked"
        ]
    if isinstance(result.guide, SupportsPartition):  # there are no features
        found = _about_unclear(result) + _about_unplaced(result)
        if _is_disputed(result):
            said = 'all items are in one cluster, though the crowd often said "different"'
            found.append(f"{said}: {_check_order(result)}")
        return found
    if sees_others:
        return [
            "the features show something else than the crowd sees: partitions found from the "
            "answers alone explain the answers better than the clusters do; use other features, or "
            "ask about more pairs of the items that matter"
        ]
    if chosen is None or chosen.chance is None:
        return []
    winner = chosen.table[chosen.table["chosen"]]
    if "features" in winner and (winner["features"] == ANSWERS.features).any():
        return [
            "the features show little of what the crowd sees, so that the clusters are those of "
            "the answers: ask about the items without answers, or use other features"
        ]
    if chosen.held_out > chosen.chance + _MIN_GAIN:
        return []
    return [
        "the features show little of what the crowd sees: answers about items that it was not "
        "asked about are predicted hardly better than by chance; ask about more items, or use "
        "other features"
    ]


def _about_unclear(result: Fitted) -> list[str]:
    """The reason of the choice, where answers without features did not decide it."""
    chosen, is_alone = result.chosen, isinstance(result.guide, SupportsPartition)
    return [chosen.reason] if is_alone and chosen is not None and not chosen.is_clear else []


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


def _uninformative(result: Fitted) -> pd.Index:
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


def _check_order(result: Fitted) -> str:
    """What to check where "same" and "different" may be swapped."""
    right = '1 is "same" and 0 "different" in the answers'
    if len(result.data.grade_ids):
        right = 'grades go from "different" to "same" in grades='
    return f"check that {right}, and not the other way round"


def _ask_more(result: Fitted) -> str:
    return "ask about more pairs" if result.data.placements is None else "have more pages sorted"


def _answers_are_used(result: Fitted) -> bool:
    """Whether the clusters were learned from the answers, too, as the choice has decided."""
    return result.chosen is None or result.chosen.uses_answers


def _are_few(result: Fitted) -> bool:
    """Whether there are too few answers about pairs to hold some out in the choice of the model."""
    chosen, data = result.chosen, result.data
    if chosen is None or "uses_answers" not in chosen.table or chosen.chance is not None:
        return False
    return data.has_answers and data.known is None and data.links is None


def _only_word(result: Fitted) -> str | None:
    """The label that nearly all answers have, if there is one."""
    answers = result.data.answers
    share = 0.5 if answers is None else float(answers.label.nanmean())
    return "same" if share > _NEARLY_ALL else "different" if share < 1 - _NEARLY_ALL else None


def _about_lapses(result: Fitted) -> list[str]:
    """Advice where pages of pairs look careless."""
    data = result.data
    if data.answers is None or not data.has_pages:
        return []
    has_lapses = part_of(result.model, "annotators", SupportsLapses) is not None
    if len(data.grade_ids) and not has_lapses:
        return []
    careless = find_lapses(result)["careless"]
    number = int((careless > _CARELESS).sum())
    if not number:
        return []
    page, worker = careless.index[int(careless.argmax())]
    what = "the fit gives them little weight" if has_lapses else "leave them out, and fit again"
    return [
        f"{number} of {len(careless)} pages of pairs look as if they were answered without "
        f"looking, above all page {page} of worker {worker} (see diagnostics.find_lapses): {what}"
    ]


def _about_shared_mistakes(result: Fitted) -> list[str]:
    """Advice where two workers confirm each other's mistakes, which a choice has left out."""
    if result.chosen is not None and not isinstance(result.guide, SupportsPartition):
        said, done = result.chosen.shared_mistakes, ", which are left out of the fit"
    else:
        shared, done = find_shared_mistakes(result.data, result.seed), ""
        said = "" if shared is None else shared.sentence(result.data)
    if not said:
        return []
    return [
        f"{said}{done}; ask others about the same items, and if these two copy each other or are "
        "runs of one model, keep the answers of only one"
    ]


def _share_of_answers(result: Fitted, workers: pd.Series) -> float:
    """Share of the answers that come from these workers (a mask)."""
    number = result.workers["answers"]
    return float(number[workers].sum() / number.sum())


def _still_rising(result: Fitted) -> bool:
    """Whether a budget ended training while the ELBO rose.

    Where partitions are drawn, the ELBO is that of a draw, which rises and falls.
    """
    if isinstance(result.guide, SupportsPartition):
        return False
    return Ending.BUDGET.is_of(result.stop_reason) and still_rises(
        (result.history["elbo"] / result.data.num_items).tolist()
    )
