"""Which candidate a search decides for, and why: rules, the first of which that applies decides.

Each is a function from a ``Search`` to a decision, or to None if it does not apply.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.interface.candidates.forms import ANSWERS
from pyro_crowdclust.interface.choosing.answer_predictiveness import (
    clusters_supported_by_answers,
    partition_predicts_best,
)
from pyro_crowdclust.interface.choosing.clustering_search import Search
from pyro_crowdclust.interface.choosing.decisions import Decision, WithoutAnswers
from pyro_crowdclust.interface.choosing.fixed_components import fits_at_fixed_components
from pyro_crowdclust.interface.choosing.rereading import with_feature_weight
from pyro_crowdclust.interface.holding_out.pairs import PairSplit

# The end of the reason why clusters were not learned from answers.
_ALONE = (
    "clusters are learned from the features alone, and answers move only the items that they are "
    "about"
)
_JOINED = (
    "clusters are learned from the features alone, and pages say which of these are one, which "
    "predicts held-out placements clearly better than chance"
)
_BY_ANSWERS = (
    "nothing predicts held-out answers about other items clearly better than chance, but answers "
    "about the same items do: clusters are learned from the answers alone"
)
_ABOUT_OTHERS = (
    "held-out answers are predicted at {:.3f} nats an answer, nearly as well as by the best "
    "candidate, which does not predict those about other items clearly better than chance; this "
    "one does"
)
# With fewer held-out answers about items without other answers, it is not clear that they are
# not predicted.
_MIN_OTHERS = 40


def decide(search: Search) -> Decision:
    """What the first rule that applies decides; on Ctrl-C, the best candidate so far."""
    by_rules = (rule(search) for rule in RULES)
    return search.unless_interrupted(lambda: next(found for found in by_rules if found))


def too_few_answers(search: Search) -> Decision | None:
    """Without answers, if these are too few to hold some out."""
    if search.space.by_features is None or search.candidates.splits:
        return None
    without, why = search.joined, "there are too few answers to hold some out"
    # Placements that are too few for every candidate may be enough for the best.
    why += " for every candidate" if without.parts else ""
    return _decide_without(without, f"{why}: {_JOINED if without.best.joins else _ALONE}")


def as_records(search: Search) -> Decision | None:
    """A partition into clusters of any number and size, if it predicts answers best."""
    if not search.space.may_be_records:
        return None
    candidates = search.candidates
    fit_best = partial(candidates.brief_fit_of, search.best.trial)
    if not partition_predicts_best(candidates.data, search.seed, fit_best):
        return None
    return replace(search.best, are_records=True)


def nothing_else(search: Search) -> Decision | None:
    """The best candidate, if there is no search space without answers."""
    return search.best if search.space.by_features is None else None


def answers_about_the_same(search: Search) -> Decision | None:
    """Clusters from answers alone, where features say too little about items without answers.

    Where most items have answers, some of the held-out answers are about items with others in the
    fit, and those are predicted by any clusters to which answers can move items. So answers about
    other items decide: if the best candidate does not predict these, then the best of those that
    do, among the candidates that are not clearly worse. If there are too few such answers, clusters
    from answers alone are used if they predict the others clearly better.
    """
    splits = [one for one in search.candidates.splits if isinstance(one, PairSplit)]
    if not splits or not search.predicts_answers:  # partitions are not drawn beside pages
        return None
    best = search.best.trial
    number = len(best.log_probabilities)
    of_others = np.concatenate([one.of_others for one in splits])[:number]
    if of_others.all():
        return None
    if of_others.sum() < _MIN_OTHERS:
        fit_best = partial(search.candidates.brief_fit_of, best)
        weight = best.feature_weight
        return _from_answers(search, lambda data: with_feature_weight(fit_best(data), weight))
    if search.that_predict([best], of_others):
        return None
    rivals = search.candidates.ranking.rivals(search.candidates.trials)
    found = max(search.that_predict(rivals, of_others), key=lambda one: one.score, default=None)
    if found is not None:
        return Decision(found, _ABOUT_OTHERS.format(found.score))
    return _from_answers(search, None)


def predicted(search: Search) -> Decision | None:
    """The best candidate, if some candidate predicts answers clearly better than chance."""
    return search.best if search.predicts_answers else None


def answers_alone(search: Search) -> Decision | None:
    """Clusters from answers alone, if they predict answers better than those of features."""
    without = search.without_answers
    if without.fitted is None:
        return None
    found = _from_answers(search, fits_at_fixed_components(without.best, without.fitted))
    return found and replace(found, without=without)


def one_cluster(search: Search) -> Decision | None:
    """The best candidate, if features show a single cluster, which answers cannot make worse."""
    without = search.without_answers
    if without.best.clusters != 1:
        return None
    return replace(search.best, without=without, interrupted=without.interrupted)


def features_joined_by_pages(search: Search) -> Decision | None:
    """Clusters of the features, if pages show which of these are one."""
    if not search.joined.best.joins:
        return None
    why = f"no candidate predicts held-out placements clearly: {_JOINED}"
    return _decide_without(search.joined, why)


def features_alone(search: Search) -> Decision:
    """Clusters of the features, as nothing predicts answers."""
    why = f"nothing predicts held-out answers clearly better than chance: {_ALONE}"
    return _decide_without(search.joined, why)


RULES: tuple[Callable[[Search], Decision | None], ...] = (
    too_few_answers,
    as_records,
    nothing_else,
    answers_about_the_same,
    predicted,
    answers_alone,
    one_cluster,
    features_joined_by_pages,
    features_alone,
)


def _decide_without(without: WithoutAnswers, why: str) -> Decision:
    """For the best candidate without answers."""
    return Decision(without.best, why, without=without, interrupted=without.interrupted)


def _from_answers(
    search: Search, by_features: Callable[[CrowdData], Fitted] | None
) -> Decision | None:
    """Clusters from answers alone, if they predict answers better than those of features."""
    candidates = search.candidates
    number = clusters_supported_by_answers(candidates.data, candidates.draws, by_features)
    return None if number is None else Decision(candidates.try_out(ANSWERS, number), _BY_ANSWERS)
