"""What may take the place of the complete fit of a candidate: corrections, one after the other.

Each is a function from a ``CompleteFit`` to the same or a better one, and lets a Ctrl-C through.
"""

from __future__ import annotations

from dataclasses import replace

from pyro_crowdclust.errors import count
from pyro_crowdclust.interface.choosing.complete_fits import (
    CompleteFit,
    as_chosen,
    fit_completely,
    has_one_cluster,
)
from pyro_crowdclust.interface.choosing.decisions import Decision
from pyro_crowdclust.interface.choosing.explaining import (
    drawn_explanation,
    is_doubtful,
    is_explained_worse,
    with_rates_of_draws,
)
from pyro_crowdclust.interface.choosing.reasons import (
    FROM_CANDIDATE,
    FROM_DRAWS,
    FROM_FEATURES,
    FROM_OTHER_FEATURES,
    STILL_UNEXPLAINED,
    UNEXPLAINED,
    choice_of,
    with_reason,
)
from pyro_crowdclust.interface.choosing.several_starts import better_from_draws
from pyro_crowdclust.interface.recipe import takes_all
from pyro_crowdclust.interface.searches import table_of
from pyro_crowdclust.pooling.comparison import SMALLEST_EVIDENCE
from pyro_crowdclust.results import Chosen
from pyro_crowdclust.results.chosen import INTERRUPTED
from pyro_crowdclust.starts import FittedStart
from pyro_crowdclust.training import is_interrupted, uninterrupted


def corrected(found: CompleteFit) -> CompleteFit:
    """The fit after all corrections; one that Ctrl-C ends changes nothing."""
    for correction in (from_candidate, explained_by_draws, explained_by_features):
        if is_interrupted(found.fitted):
            return found
        try:
            found = correction(found)
        except KeyboardInterrupt:
            return replace(found, fitted=replace(found.fitted, stop_reason=INTERRUPTED))
    return found


def from_candidate(found: CompleteFit) -> CompleteFit:
    """A fit that starts where the search ended, if the complete fit lost all clusters but one.

    The candidate had several when it predicted held-out answers.
    """
    search, best = found.search, found.best
    data, candidates = search.space.data, search.candidates
    is_scored = data.answers is not None and best.by_weight is not None
    expects_several = is_scored and best.clusters > 1
    if not (found.has_one_cluster and expects_several and found.may_start_elsewhere):
        return found
    tried = candidates.brief_fit_of(best, candidates.splits[0].data)
    start = FittedStart(tried.model, tried.guide, tried.data.num_items)
    fitted = uninterrupted(found.recipe.fit(seed=search.seed, initialize=start, **found.options))
    read = as_chosen(best, fitted, data)
    if has_one_cluster(read):
        return found
    chosen = with_reason(found.fitted.chosen, FROM_CANDIDATE)
    return replace(found, unread=fitted, read_as_chosen=read, fitted=replace(read, chosen=chosen))


def explained_by_draws(found: CompleteFit) -> CompleteFit:
    """A fit that explains the answers, if this one explains them worse than draws of partitions.

    It starts at partitions that are drawn from the answers alone; if that does not help, it only
    has their rates of workers.
    """
    if found.has_one_cluster:
        return found
    drawn = drawn_explanation(found.fitted, found.search.candidates.draws.partitions_of)
    if drawn is None or not is_doubtful(found.fitted, drawn):
        return found
    found = replace(found, is_doubtful=True)
    if not is_explained_worse(found.fitted, drawn):
        return found
    instead, why = _started_at_draws(found), UNEXPLAINED
    if instead is not None:
        found, why = instead, STILL_UNEXPLAINED
        if not is_explained_worse(found.fitted, drawn):
            return found
    read = with_rates_of_draws(found.fitted, drawn)
    if read is found.fitted:
        return found
    return replace(found, fitted=replace(read, chosen=with_reason(read.chosen, why)))


def _started_at_draws(found: CompleteFit) -> CompleteFit | None:
    """The best fit from starts at drawn partitions; None if the ELBO of none is larger."""
    space, best = found.search.space, found.best
    # In minibatches, as of very many items, these fits would take longer than all others.
    if not (found.may_start_elsewhere and takes_all(space.data, found.unread.model)):
        return None
    instead = better_from_draws(
        found.unread,
        best.form,
        space.distinct,
        max_components=max(space.sizes),
        max_clusters=space.max_clusters,
        **found.options,
    )
    if instead is None:
        return None
    number = instead.component_probabilities.shape[1]
    why = FROM_DRAWS.format(count(number, "component"))
    read = as_chosen(best, instead, space.data)
    chosen = with_reason(found.fitted.chosen, why)
    return replace(found, unread=instead, read_as_chosen=read, fitted=replace(read, chosen=chosen))


def explained_by_features(found: CompleteFit) -> CompleteFit:
    """Clusters of the features alone, if the fit is doubtful and these explain the answers better.

    With the rates of workers integrated out, clusters that people do not see explain answers no
    better than chance, however well they are explained by blaming the workers.
    """
    search, source = found.search, found.search.space.by_features
    # With readings of unseen answers, the fit is one of the features alone already.
    if not found.is_doubtful or found.decision.unseen is not None or source is None:
        return found
    without = search.read_by_answers
    if without is None or without.unseen is None:
        return found
    best = without.best
    recipe = best.form.recipe(source.distinct, best.num_components)
    table = table_of(search.tried(without), best)
    chosen = Chosen(table, "", most_components=source.max_clusters)
    decision = Decision(best, "", without=without)
    instead = fit_completely(search, decision, recipe, chosen, found.seeds, found.options)
    uninterrupted(instead.fitted)
    evidence = without.unseen.log_evidence_of
    gain = evidence(instead.fitted) - evidence(found.fitted)
    if gain <= SMALLEST_EVIDENCE:
        return found
    sentence = FROM_FEATURES if found.best.uses_answers else FROM_OTHER_FEATURES
    why = f"{choice_of(found.fitted).reason}; {sentence.format(gain)}"
    own = choice_of(instead.fitted)
    chosen = replace(own, reason=why + own.reason)
    return replace(instead, fitted=replace(instead.fitted, chosen=chosen))
