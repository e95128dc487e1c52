"""Fits of a chosen candidate to all data, and how they are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.data import some_items
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.interface.about_data import is_of_features_alone, known_labels_alone
from pyro_crowdclust.interface.choosing.clustering_search import Search
from pyro_crowdclust.interface.choosing.decisions import Decision
from pyro_crowdclust.interface.choosing.label_check import KeptFit, LabelCheck
from pyro_crowdclust.interface.choosing.overlaps import with_classes_joined, with_overlaps_joined
from pyro_crowdclust.interface.choosing.reasons import with_reason
from pyro_crowdclust.interface.choosing.rereading import (
    grouped,
    with_answers_added,
    with_components_joined,
    with_feature_weight,
    with_owners_of_few_weighed,
)
from pyro_crowdclust.interface.choosing.several_starts import best_of_starts
from pyro_crowdclust.interface.choosing.subsets import connected_items
from pyro_crowdclust.interface.choosing.trials import Trial
from pyro_crowdclust.interface.recipe import Recipe
from pyro_crowdclust.protocols import part_of
from pyro_crowdclust.results import Chosen
from pyro_crowdclust.results.chosen import INTERRUPTED
from pyro_crowdclust.starts import FittedStart
from pyro_crowdclust.training import RobbinsMonro, is_interrupted
from pyro_crowdclust.training.interrupts import WaitingInterrupt

# Where all items need minibatches, the chosen candidate is first fitted to this many items.
_PART_ITEMS = 5000
# Once that fit has found the clusters, a few small steps on all items are enough.
_AFTER_PART: dict[str, Any] = {"epochs": 3, "step_size": RobbinsMonro(0.05, delay=50.0)}


@dataclass(frozen=True)
class CompleteFit:
    """The complete fit of a candidate, and how it came about.

    Attributes
    ----------
    search, decision
        The search that the candidate won, and what it decided.
    recipe
        Of the candidate, for distinct rows of the data.
    seeds, options
        Seeds of the starts, and options of the fits.
    unread
        The fit of the recipe, at full weight of the features.
    read_as_chosen
        The same, read as the candidate was chosen (``as_chosen``): without answers if it uses none.
    fitted
        The same, read with all answers, and with how it was chosen: the result.
    is_doubtful
        Whether the answers seem to be explained by blaming the workers.
    """

    search: Search
    decision: Decision
    recipe: Recipe
    seeds: range
    options: dict[str, Any]
    unread: Fitted
    read_as_chosen: Fitted
    fitted: Fitted
    is_doubtful: bool = False

    @property
    def best(self) -> Trial:
        """The candidate."""
        return self.decision.trial

    @property
    def has_one_cluster(self) -> bool:
        """Whether the candidate has a single cluster, before answers are added to it."""
        return has_one_cluster(self.read_as_chosen)

    @property
    def may_start_elsewhere(self) -> bool:
        """Whether it is a mixture of features and answers whose start the user has not set."""
        is_mixture = self.best.uses_answers and self.best.form.of_features
        return is_mixture and "initialize" not in self.options


def fit_completely(
    search: Search,
    decision: Decision,
    recipe: Recipe,
    chosen: Chosen,
    seeds: range,
    options: dict[str, Any],
) -> CompleteFit:
    """Fit a candidate to all its data, from one start only if the search was interrupted.

    Parameters
    ----------
    search, decision
        The search, and what it decided.
    recipe
        Of the candidate, for the distinct rows of its data.
    chosen
        How it was chosen.
    seeds, options
        Seeds of the starts, and options of the fits.
    """
    best = decision.trial
    source = search.space.of(best.uses_answers)
    data = source.distinct
    if decision.interrupted:
        fitted = recipe.fit(seed=seeds[0], **options)
        fitted = replace(fitted, stop_reason=INTERRUPTED)
    else:
        check = None
        if known_labels_alone(data):
            trials = search.candidates.trials
            check = LabelCheck(data, best.feature_weight, seeds[0], trials, options)
        kept = _best_fit(best, recipe, data, seeds, options, check, search.fit_tried(best))
        fitted = kept.fitted
        if check is not None:
            best, fitted, chosen = check.checked(kept, best, chosen)
            decision = replace(decision, trial=best)
    with WaitingInterrupt():  # so that Ctrl-C does not lose the fit
        result = read = as_chosen(best, fitted, source.data)
        if not best.uses_answers:
            result, chosen = _with_answers_read(search.space.data, decision, read, chosen)
    result = replace(result, chosen=chosen)
    return CompleteFit(search, decision, recipe, seeds, options, fitted, read, result)


def _best_fit(
    best: Trial,
    recipe: Recipe,
    data: CrowdData,
    seeds: range,
    options: dict[str, Any],
    check: LabelCheck | None,
    tried: Fitted | None,
) -> KeptFit:
    """The best of several fits, or, in minibatches, one that starts at a fit to a part.

    ``data`` are those of the recipe, before rounding steps are filled by noise. A check of known
    labels, if it is given, compares the starts by these. A brief fit, if there is one, is one of
    the starts.
    """
    if recipe.options["batch_size"] is not None and "initialize" not in options:
        generator = torch.Generator().manual_seed(seeds[0])
        part = some_items(data, connected_items(data, _PART_ITEMS, generator))
        emission = part_of(recipe.model, "emission", Identity)
        of_part = best_of_starts(
            best.form.recipe(part, best.num_components, emission),
            part,
            seeds,
            options,
            check,
            tried,
        )
        first = of_part.fitted
        start = FittedStart(first.model, first.guide, first.data.num_items)
        options = _AFTER_PART | {"initialize": start} | options
        fitted = recipe.fit(seed=seeds[0], **options)
        reason = (first if is_interrupted(first) else fitted).stop_reason
        return replace(of_part, fitted=replace(fitted, stop_reason=reason))
    if recipe.options["batch_size"] is None:
        # Components may stay on a plateau for as long as they did in the trial.
        options = {"epochs": max(best.form.epochs, recipe.options["epochs"])} | options
    return best_of_starts(recipe, data, seeds, options, check, tried)


def as_chosen(best: Trial, fitted: Fitted, data: CrowdData) -> Fitted:
    """The fit with the chosen weight of the features, and components joined to clusters.

    Parameters
    ----------
    best, fitted
        The candidate, and its complete fit.
    data
        All data; the fit may be of distinct rows.
    """
    # Overlap of components is measured at the full weight of features, before answers are used.
    fitted = with_feature_weight(fitted, best.feature_weight if best.uses_answers else 1.0)
    fitted = replace(fitted, data=data)
    if known_labels_alone(data):  # every cluster of a regression is a class already
        return with_classes_joined(fitted) if best.form.of_features else fitted
    if not is_of_features_alone(data):
        return with_owners_of_few_weighed(fitted)
    return with_overlaps_joined(fitted)


def _with_answers_read(
    data: CrowdData, decision: Decision, fitted: Fitted, chosen: Chosen
) -> tuple[Fitted, Chosen]:
    """A fit of the features alone with the answers added, and how it was chosen."""
    best, unseen = decision.trial, decision.unseen
    reading = None if unseen is None else unseen.nearest(fitted)
    if reading is None:
        add = with_components_joined if best.joins else with_answers_added
        return add(fitted, data, best.feature_weight), chosen
    read = with_answers_added(grouped(fitted, reading.group), data, reading.weight)
    table = chosen.table
    weight = table["feature_weight"].mask(table["chosen"], reading.weight)
    chosen = replace(chosen, table=table.assign(feature_weight=weight))
    return read, with_reason(chosen, reading.sentence)


def has_one_cluster(fitted: Fitted) -> bool:
    """Whether all items are in one cluster."""
    return int((fitted.clusters["assigned_items"] > 0).sum()) == 1
