"""What a fit's own figures say about its settings, for people who do not read figures."""

from __future__ import annotations

import pandas as pd

from pyro_crowdclust.diagnostics import find_lapses
from pyro_crowdclust.interface.choosing.explaining import ExplainingTraining
from pyro_crowdclust.protocols import (
    SupportsLapses,
    SupportsMixture,
    SupportsPartition,
    SupportsWorkers,
    part_of,
)
from pyro_crowdclust.results import Fitted
from pyro_crowdclust.training import Ending

# A worker is heard if an answer counts at least so many nats.
_HEARD = 1.0
# A page so likely careless is worth leaving out.
_CARELESS = 0.9
# So large a share of one word says nothing about the pairs.
_NEARLY_ALL = 0.95
# Features show little of what the crowd sees if held-out answers gain no more nats over chance.
_SHOWN = 0.01


def advice(result: Fitted) -> list[str]:
    """Sentences about settings that this fit suggests to change; none if there is nothing to say.

    - Clusters collapsed: all items are in one, though the crowd often said "different". Of answers
      alone: same and different may be swapped.
    - More clusters are needed: the largest number of components that was allowed is the best, or
      every cluster has items.
    - Same and different are swapped: most answers come from workers who say the opposite.
    - The crowd guesses: most answers come from workers who count for next to nothing.
    - Answers had no part in the clusters, as the choice has decided: they are few, nearly all the
      same word, or not predicted clearly better than by chance.
    - There are no features, and answers held out are hardly predicted by any prior.
    - The features show other things than the crowd sees: the clusters do not explain the answers.
    - The features show little of what the crowd sees: the clusters hear the answers, but answers
      about other items are predicted hardly better than by how often workers say "same".
    - Workers lapsed: pages of pairs look answered without looking.
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
        found += _of_clusters(result)
    has_workers = result.data.has_answers and isinstance(result.guide, SupportsWorkers)
    if has_workers and not (found and _are_heard(result)):
        found += _of_answers(result) or _of_lapses(result)
    if _still_rising(result):
        found.append("the ELBO was still rising at the end: train for more epochs")
    return found


def _of_clusters(result: Fitted) -> list[str]:
    """Whether there are too few."""
    assigned = result.clusters["assigned_items"]
    if _is_disputed(result):
        return [
            'all items are in one cluster, though the crowd often said "different": clusters '
            "collapsed; try more starts, or other features"
        ]
    number = len(assigned)
    # Where the number was chosen, larger ones were tried unless it is the largest.
    is_bound = result.chosen is None or number == result.chosen.table["components"].max()
    if number == 1 or not is_bound or not (assigned > 0).all():
        return []
    if number + 1 >= result.data.num_items:  # every item its own cluster says nothing
        return []
    return [f"all {number} clusters hold items: there may be more, so raise their number"]


def _is_disputed(result: Fitted) -> bool:
    """Whether all items are in one cluster, though the crowd often said "different"."""
    answers = result.data.answers
    if answers is None or _are_few(result) or answers.label.nanmean() >= 0.8:
        return False
    return bool((result.clusters["assigned_items"] > 0).sum() == 1)


def _of_answers(result: Fitted) -> list[str]:
    """Whether answers had no part in the clusters, the crowd guesses, or features show little."""
    chosen = result.chosen
    alone = ""
    if not _are_heard(result):
        alone = ", and the clusters are those of the features alone, but for items with answers"
    if _are_few(result):
        return [
            f"the answers are too few to tell what they teach about other items{alone}: ask about "
            "more pairs"
        ]
    if alone and (word := _only_word(result)):
        return [
            f'nearly all answers are "{word}", whatever the pair{alone}: look at the question, or '
            "ask about pairs of both kinds"
        ]
    weight = result.workers["weight"]
    if _share_of(result, weight < -_HEARD) > 0.5:
        return [f"most answers say the opposite of what the clusters show{alone}: {_order(result)}"]
    guesses = _share_of(result, weight < _HEARD) > 0.5
    sees_others = isinstance(result.train_on, ExplainingTraining)
    if alone:
        by_these = ""
        if guesses:
            by_these = "; by these most workers seem to guess, or they see other things"
        elif sees_others:
            by_these = ", which do not explain what it says: the crowd sees other things"
        return [
            "answers about items that were not asked about before are not predicted clearly better "
            f"than by chance{alone}{by_these}: ask about more pairs, or bring features that show "
            "what the crowd sees"
        ]
    if guesses:
        return [
            "most answers come from workers who seem to guess, as they agree neither with each "
            "other nor with anything else: look at the question that they were asked"
        ]
    if isinstance(result.guide, SupportsPartition):  # there are no features
        found = [chosen.reason] if chosen is not None and not chosen.is_clear else []
        if _is_disputed(result):
            said = 'all items are in one cluster, though the crowd often said "different"'
            found.append(f"{said}: {_order(result)}")
        return found
    if sees_others:
        return [
            "the features show other things than the crowd sees: partitions by the answers alone "
            "explain these better than the clusters do; bring other features, or ask about more "
            "pairs of the items that matter"
        ]
    if chosen is None or chosen.chance is None or chosen.held_out > chosen.chance + _SHOWN:
        return []
    return [
        "the features show little of what the crowd sees: answers about items that it was not "
        "asked about are predicted hardly better than by chance; ask about more items, or bring "
        "other features"
    ]


def _order(result: Fitted) -> str:
    """What to look at where same and different may be swapped."""
    right = '1 is "same" and 0 "different" in the answers'
    if len(result.data.grade_ids):
        right = 'grades go from "different" to "same" in grades='
    return f"look whether {right}, and not the other way round"


def _are_heard(result: Fitted) -> bool:
    """Whether answers had a part in the clusters, as the choice has decided."""
    return result.chosen is None or result.chosen.hears


def _are_few(result: Fitted) -> bool:
    """Whether answers about pairs are too few to have any part in the choice of the model."""
    chosen, data = result.chosen, result.data
    if chosen is None or "hears" not in chosen.table or chosen.chance is not None:
        return False
    return data.answers is not None and data.known is None and data.links is None


def _only_word(result: Fitted) -> str | None:
    """What nearly all answers are, if that is one word."""
    answers = result.data.answers
    share = 0.5 if answers is None else float(answers.label.nanmean())
    return "same" if share > _NEARLY_ALL else "different" if share < 1 - _NEARLY_ALL else None


def _of_lapses(result: Fitted) -> list[str]:
    """Whether pages of pairs look careless."""
    data = result.data
    if data.answers is None or not data.has_pages:
        return []
    heard = part_of(result.model, "annotators", SupportsLapses) is not None
    if len(data.grade_ids) and not heard:
        return []
    careless = find_lapses(result)["careless"]
    number = int((careless > _CARELESS).sum())
    if not number:
        return []
    page, worker = careless.index[int(careless.argmax())]
    what = "the fit hardly heard them" if heard else "leave them out, fit again"
    return [
        f"{number} of {len(careless)} pages of pairs look answered without looking, first of all "
        f"page {page} of worker {worker}: see diagnostics.find_lapses, {what}"
    ]


def _share_of(result: Fitted, are_meant: pd.Series) -> float:
    """Share of the answers that come from some of the workers."""
    number = result.workers["answers"]
    return float(number[are_meant].sum() / number.sum())


def _still_rising(result: Fitted) -> bool:
    """Whether the last tenth of the epochs brought 1 % of all that was gained.

    Epochs are averages of noisy minibatches, so the rise is that of halves of the last fifth. Where
    partitions are drawn the ELBO is that of a draw, and rises and falls.
    """
    if isinstance(result.guide, SupportsPartition):
        return False
    if not Ending.BUDGET.is_of(result.stop_reason) or len(result.history) < 10:
        return False
    elbo = result.history["elbo"].to_numpy()
    last = elbo[-max(len(elbo) // 5, 4) :]
    half = len(last) // 2
    rise = last[half:].mean() - last[:half].mean()
    return bool(rise > 0.01 * (elbo[-1] - elbo[0]))
