"""Advice about settings and data in plain sentences, from the diagnostics of a fit."""

from __future__ import annotations

import numpy as np

from pyro_crowdclust.data.tables import listed
from pyro_crowdclust.diagnostics import find_lapses
from pyro_crowdclust.interface.choosing.shared_mistakes import find_shared_mistakes
from pyro_crowdclust.interface.command_line.answer_advice import (
    about_answers,
    answers_are_used,
    is_disputed,
)
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

# Pages that are careless with more than this probability should be left out.
_CARELESS = 0.9
# A class that has labels should have other items, too, if it has none by chance with less than this
# probability.
_UNLIKELY = 0.01
# So many classes are named.
_NAMED = 3


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
    if has_workers and not (found and answers_are_used(result)):
        found += about_answers(result) or _about_lapses(result)
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
    if is_disputed(result):
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


def _still_rising(result: Fitted) -> bool:
    """Whether a budget ended training while the ELBO rose.

    Where partitions are drawn, the ELBO is that of a draw, which rises and falls.
    """
    if isinstance(result.guide, SupportsPartition):
        return False
    return Ending.BUDGET.is_of(result.stop_reason) and still_rises(
        (result.history["elbo"] / result.data.num_items).tolist()
    )
