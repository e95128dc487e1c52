"""Fits that explain the answers better than the one that was chosen, where this one does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyro_crowdclust import Fitted
from pyro_crowdclust.data.tables import count
from pyro_crowdclust.interface.choosing.complete_fits import as_chosen, complete_fit
from pyro_crowdclust.interface.choosing.explaining import (
    drawn_explanation,
    is_doubtful,
    is_explained_worse,
    with_rates_of_draws,
)
from pyro_crowdclust.interface.choosing.reasons import (
    FROM_DRAWS,
    FROM_FEATURES,
    UNEXPLAINED,
    with_reason,
)
from pyro_crowdclust.interface.choosing.rereading import (
    grouped,
    updated_at_full_weight,
    with_answers_added,
    with_components_joined,
)
from pyro_crowdclust.interface.choosing.search import Search
from pyro_crowdclust.interface.choosing.several_starts import better_from_draws
from pyro_crowdclust.interface.choosing.subsets import distinct_items
from pyro_crowdclust.interface.choosing.trials import Trial, table_of
from pyro_crowdclust.interface.recipe import takes_all
from pyro_crowdclust.pooling.comparison import SMALLEST_EVIDENCE
from pyro_crowdclust.results import Chosen
from pyro_crowdclust.results.chosen import INTERRUPTED
from pyro_crowdclust.training import completed


def better_explained(
    search: Search,
    best: Trial,
    of_components: Fitted,
    fitted: Fitted,
    seeds: range,
    options: dict[str, Any],
) -> Fitted:
    """The fit, or one that explains the answers better, if its clusters do not explain them.

    Parameters
    ----------
    search, best, of_components, fitted
        What was searched and chosen, its fit, and the same with a weight of the features.
    seeds, options
        Seeds of the starts, and options of the fit.
    """
    try:
        drawn = drawn_explanation(fitted)
        if drawn is None or not is_doubtful(fitted, drawn):
            return fitted
        if is_explained_worse(fitted, drawn):
            fitted = _by_draws(search, best, of_components, fitted, drawn, options)
        # Otherwise the fit is such a reading.
        if search.unseen is None:
            fitted = explained_by_features(search, fitted, seeds, options)
        return fitted
    except KeyboardInterrupt:
        return replace(fitted, stop_reason=INTERRUPTED)


def _by_draws(
    search: Search,
    best: Trial,
    of_components: Fitted,
    fitted: Fitted,
    drawn: Fitted,
    options: dict[str, Any],
) -> Fitted:
    """A fit that starts at partitions drawn from the answers, or has their rates of workers."""
    # In minibatches, as of very many items, these fits would take longer than all others.
    model = of_components.model
    if may_start_elsewhere(best, options) and takes_all(search.plan.data, model):
        form, most = best.form, max(search.plan.sizes)
        data = distinct_items(search.plan.data)
        instead = better_from_draws(of_components, form, data, most, **options)
        if instead is not None:
            number = instead.component_probabilities.shape[1]
            why = FROM_DRAWS.format(count(number, "component"))
            read = as_chosen(best, instead, search.plan.data)
            fitted = replace(read, chosen=with_reason(fitted.chosen, why))
            if not is_explained_worse(fitted, drawn):
                return fitted
    read = with_rates_of_draws(fitted, drawn)
    if read is fitted:
        return fitted
    return replace(read, chosen=with_reason(fitted.chosen, UNEXPLAINED))


def explained_by_features(
    search: Search, fitted: Fitted, seeds: range, options: dict[str, Any]
) -> Fitted:
    """The fit, or clusters of the features alone, if these explain the answers better.

    With the rates of workers integrated out, clusters that people do not see explain answers no
    better than chance, however well they are explained by blaming the workers.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C.
    """
    source = search.plan.by_features
    if source is None:
        return fitted
    trial = search.read_by_answers(source)
    if trial is None or search.unseen is None:
        return fitted
    data = distinct_items(source.data)
    recipe = trial.form.recipe(data, trial.num_components)
    instead = completed(complete_fit(trial, recipe, data, source.part_items, seeds, options))
    table = table_of(search.trials, trial)
    chosen = Chosen(table, "", most_components=max(source.sizes))
    read, chosen = with_answers_read(search, trial, as_chosen(trial, instead, source.data), chosen)
    evidence = search.unseen.log_evidence_of
    gain = evidence(read) - evidence(fitted)
    if gain <= SMALLEST_EVIDENCE:
        return fitted
    assert fitted.chosen is not None  # every choice sets it
    why = f"{fitted.chosen.reason}; {FROM_FEATURES.format(gain)}{chosen.reason}"
    return replace(read, chosen=replace(chosen, reason=why))


def with_answers_read(
    search: Search, best: Trial, fitted: Fitted, chosen: Chosen
) -> tuple[Fitted, Chosen]:
    """A fit of the features alone with the answers added, and how it was chosen."""
    reading = None if search.unseen is None else search.unseen.nearest(fitted)
    if reading is None:
        add = with_components_joined if best.joins else with_answers_added
        return add(fitted, search.plan.data, best.feature_weight), chosen
    read = with_answers_added(grouped(fitted, reading.group), search.plan.data, reading.weight)
    # The weight is small because answers are few, and updates have more.
    read = updated_at_full_weight(read)
    table = chosen.table
    weight = table["feature_weight"].mask(table["chosen"], reading.weight)
    chosen = replace(chosen, table=table.assign(feature_weight=weight))
    return read, with_reason(chosen, reading.sentence)


def may_start_elsewhere(best: Trial, options: dict[str, Any]) -> bool:
    """Whether a mixture of features and answers was chosen, whose start the user has not set."""
    return best.uses_answers and best.form.of_features and "initialize" not in options
