"""A choice, not a default: which model of the features suits them, and the answers.

Candidates differ in the coordinates of the features (standardized, made symmetric, principal
directions), in what clusters are (Gaussian components of full or diagonal covariances, or, learned
from the answers alone, a regression), and in how many of them there are. What decides is how well
answers about items are predicted whose answers were kept out of the fit, and, where answers cannot
tell or there are none, the ELBO, in the units of the features for all candidates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.data.some_items import some_items
from pyro_crowdclust.data.tables import listed
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.errors import check_whole, warnings_once
from pyro_crowdclust.interface.answers_only.records import may_be_records
from pyro_crowdclust.interface.answers_only.search import AnswersAlone
from pyro_crowdclust.interface.candidates.deviating import about_deviating
from pyro_crowdclust.interface.candidates.forms import forms_for
from pyro_crowdclust.interface.candidates.near_copies import MAX_CLUSTERS
from pyro_crowdclust.interface.candidates.starts import starts_of_numbers
from pyro_crowdclust.interface.choosing.explaining import with_answers_explained
from pyro_crowdclust.interface.choosing.overlaps import with_classes_joined, with_overlaps_joined
from pyro_crowdclust.interface.choosing.plan import SIZES, Plan
from pyro_crowdclust.interface.choosing.rereading import weighted, with_answers_heard
from pyro_crowdclust.interface.choosing.search import Search
from pyro_crowdclust.interface.choosing.subsets import connected_items, distinct_items
from pyro_crowdclust.interface.choosing.trials import Trial, table_of
from pyro_crowdclust.interface.options import check_no_checkpoint
from pyro_crowdclust.interface.recipe import (
    Recipe,
    as_answered,
    feature_names,
    is_supervised,
    labels_alone,
    seeds_of,
)
from pyro_crowdclust.protocols import Model, part_of
from pyro_crowdclust.restarts import best_first
from pyro_crowdclust.results.chosen import INTERRUPTED, Chosen
from pyro_crowdclust.starts import AnswersStart, FittedStart, TrustingStart
from pyro_crowdclust.training import RobbinsMonro, is_interrupted
from pyro_crowdclust.training.given import check_data
from pyro_crowdclust.training.interrupts import WaitingInterrupt
from pyro_crowdclust.training.options import check_values
from pyro_crowdclust.transforms import Projected, Within

# Where a fit to some of the items has found the clusters, a few small steps on all are enough.
AFTER_PART: dict[str, Any] = {"epochs": 3, "step_size": RobbinsMonro(0.05, delay=50.0)}
_RECORDS = (
    "held-out answers are clearly likelier if clusters are of any number and size, and features "
    "say how alike two items look, than in clusters of the features"
)
_UNEXPLAINED = (
    "its clusters explain the answers worse than partitions by these alone do, so that workers are "
    "judged by those"
)


@dataclass(frozen=True)
class Choice(Plan):
    """Candidates for some data, ready to look at or change before it runs.

    The fields are those of ``Plan``, and one more.

    Attributes
    ----------
    part_items
        The chosen candidate is fitted to so many items first where all of them need minibatches.
    """

    alone: Choice | None = None
    part_items: int = 5000

    def run(self, *, seed: int = 0, progress: bool = True) -> tuple[Recipe, Chosen]:
        """Try the candidates; the recipe of the best on all data, and how it was chosen.

        Parameters
        ----------
        seed
            Of starts, items and splits.
        progress
            Show which candidate is being tried.
        """
        search = Search(self, seed, progress)
        found = self._found(search)[1:]
        if not search.found_records:
            return found
        recipe, chosen = AnswersAlone(self.data).run(seed=seed)
        return recipe, _because(_RECORDS, chosen)

    def _found(self, search: Search) -> tuple[Trial, Recipe, Chosen]:
        best, reason = search.best()
        if search.num_near_copies:
            reason += f"; {search.num_near_copies} near-copies of items had no part in it"
        chance = search.splits[0].chance if search.splits else None
        recipe = best.form.recipe(self._source(best).data, best.num_components)
        reason += _about_left_out(recipe.model, self.data)
        reason += about_deviating(recipe.model, self.data)
        return best, recipe, Chosen(table_of(search.trials, best), reason, chance)

    @warnings_once()
    def fit(
        self, *, num_starts: int = 3, seed: int = 0, progress: bool = True, **changes: Any
    ) -> Fitted:
        """Choose, then fit the chosen candidate to all data from several starts.

        Parameters
        ----------
        num_starts
            Starts from the features, with seeds from ``seed`` on; where there are answers, one from
            these comes to them, and where nothing is said one from numbers beside columns of yes/no
            or categories. The fit with the largest ELBO is kept.
        seed, progress
            As of ``run``.
        changes
            Options of ``fit`` in place of the recipe's.

        Raises
        ------
        ValueError
            As ``fit`` does, for a number of starts below 1, and for a checkpoint.
        """
        seeds = seeds_of(num_starts, seed)
        check_values(self.data, **changes)
        check_no_checkpoint(changes)
        search = Search(self, seed, progress)
        best, recipe, chosen = self._found(search)
        options = {"progress": progress} | changes
        if search.found_records:
            of_answers = AnswersAlone(self.data).fit(seed=seed, **options)
            return replace(of_answers, chosen=_because(_RECORDS, of_answers.chosen))
        source = self._source(best)
        # Copies of a row count once, in the fit as in the search.
        counted = distinct_items(source.data)
        if counted is not source.data:
            recipe = best.form.recipe(counted, best.num_components)
        if search.interrupted:
            fitted = recipe.fit(seed=seed, **options)
            fitted = replace(fitted, stop_reason=INTERRUPTED)
        else:
            fitted = replace(source, data=counted)._fitted(best, recipe, seeds, options)
        with WaitingInterrupt():  # what is fitted should not be lost
            fitted = source._read(best, fitted)
            shows_one = int((fitted.clusters["assigned_items"] > 0).sum()) == 1
            if not best.hears:
                fitted = with_answers_heard(fitted, self.data, best.feature_weight)
        fitted = replace(fitted, chosen=chosen)
        if is_interrupted(fitted):
            return fitted
        if not shows_one:
            return _explained(fitted)
        found = self._instead_of_one(best, search.num_near_copies)
        if found is None:
            return fitted
        instead, why = found
        again = partial(instead.fit, num_starts=num_starts, seed=seed, progress=progress)
        return _other_or(fitted, partial(again, **changes), why)

    def _instead_of_one(self, best: Trial, num_near_copies: int) -> tuple[Choice, str] | None:
        """What to choose from where features show one cluster, and why; None if that is so."""
        if num_near_copies:
            return self._with_near_copies(), "near-copies are the only clusters"
        if best.hears:
            return None
        # One cluster is parted by answers alone, and no answer can spoil it.
        why = "the features alone show one cluster, so that answers are heard"
        return replace(self, alone=None), why

    def _with_near_copies(self) -> Choice:
        """The choice for which every row counts."""
        alone = None if self.alone is None else self.alone._with_near_copies()
        return replace(self, max_groups=None, alone=alone)

    def _source(self, best: Trial) -> Choice:
        """The choice that the candidate is of: this one, or that without the answers."""
        return self if best.hears or self.alone is None else self.alone

    def _fitted(self, best: Trial, recipe: Recipe, seeds: range, options: dict[str, Any]) -> Fitted:
        """The fit of a candidate to all data."""
        if recipe.options["batch_size"] is not None and "initialize" not in options:
            of_part = self._fit_of_part(best, recipe, seeds, options)
            start = FittedStart(of_part.model, of_part.guide, of_part.data.num_items)
            options = AFTER_PART | {"initialize": start} | options
            fitted = recipe.fit(seed=seeds[0], **options)
            reason = (of_part if is_interrupted(of_part) else fitted).stop_reason
            return replace(fitted, stop_reason=reason)
        return _best_of_starts(recipe, self.data, seeds, options)

    def _read(self, best: Trial, fitted: Fitted) -> Fitted:
        """The fit with the weight of the features, and the clusters, that the search has found."""
        # Which components overlap is read at their full weight, before answers are heard.
        fitted = weighted(fitted, best.feature_weight if best.hears else 1.0)
        fitted = replace(fitted, data=self.data)
        if labels_alone(self.data):
            return with_classes_joined(fitted)
        is_silent = not self.data.has_answers and not is_supervised(self.data)
        return with_overlaps_joined(fitted) if is_silent else fitted

    def _fit_of_part(
        self, best: Trial, recipe: Recipe, seeds: range, options: dict[str, Any]
    ) -> Fitted:
        """The fit to some of the items, to begin at: with all of them it would take many epochs."""
        generator = torch.Generator().manual_seed(seeds[0])
        part = some_items(self.data, connected_items(self.data, self.part_items, generator))
        emission = part_of(recipe.model, "emission", Identity)
        of_part = best.form.recipe(part, best.num_components, emission)
        return _best_of_starts(of_part, part, seeds, options)


def _about_left_out(model: Model, data: CrowdData) -> str:
    """The columns that the coordinates are not of, as the end of a sentence; else nothing."""
    names = feature_names(data)
    number = len(names)
    emission = part_of(model, "emission", Identity)
    if isinstance(emission, Within):
        emission = emission.inner
    assert emission is not None  # of a form
    own = {*emission.own_features(number)}
    if isinstance(emission, Projected):
        own |= {*emission.inner.own_features(number)}
    if not own:  # which is what was chosen, and no matter of single columns
        return ""
    others = [name for place, name in enumerate(names) if place not in own]
    return f"; left out for telling nothing that others do not: {listed(others)}" if others else ""


def _because(why: str, chosen: Chosen | None) -> Chosen:
    """How it was chosen, and why so."""
    assert chosen is not None  # as of every choice
    return replace(chosen, reason=f"{why}: {chosen.reason}")


def _other_or(fitted: Fitted, other: Callable[[], Fitted], why: str) -> Fitted:
    """Another fit, and why there is one; the first if Ctrl-C ends the other."""
    try:
        found = other()
    except KeyboardInterrupt:
        return replace(fitted, stop_reason=INTERRUPTED)
    if is_interrupted(found):
        return replace(fitted, stop_reason=found.stop_reason)
    return replace(found, chosen=_because(why, found.chosen))


def _explained(fitted: Fitted) -> Fitted:
    """The fit as ``with_answers_explained`` reads it, and that it does."""
    try:
        read = with_answers_explained(fitted)
    except KeyboardInterrupt:
        return replace(fitted, stop_reason=INTERRUPTED)
    if read is fitted or fitted.chosen is None:
        return read
    chosen = replace(fitted.chosen, reason=f"{fitted.chosen.reason}; {_UNEXPLAINED}")
    return replace(read, chosen=chosen)


def _best_of_starts(
    recipe: Recipe, data: CrowdData, seeds: range, changes: dict[str, Any]
) -> Fitted:
    """The fit with the largest ELBO of several starts from features, and one from answers.

    Where nothing is said of the items, one more is from numbers alone (``starts_of_numbers``).
    """
    options = recipe.options | changes
    if "initialize" not in options:  # the guide has a start of its own
        return recipe.fit(seed=seeds[0], **changes)
    attempt = partial(fit, recipe.model, recipe.guide, recipe.data, **options)
    attempts = [partial(attempt, seed=seed) for seed in seeds]
    if "initialize" not in changes:
        others = starts_of_numbers(recipe, data)
        if data.answers is not None and data.known is None:
            others.append(_start_from_answers)
        attempts += [partial(attempt, seed=seeds[0], initialize=other) for other in others]
    return best_first(attempts)[0]


def _start_from_answers(*arguments: Any) -> None:
    """A start from answers, or from features where the answers keep nobody together."""
    try:
        AnswersStart()(*arguments)
    except ValueError:
        TrustingStart()(*arguments)


def _with_shared_pages(data: CrowdData) -> CrowdData:
    """The data with a table of sorted pages as placements, if items are on enough of them."""
    answered = as_answered(data)
    pages = answered.placements
    return answered if pages is None or pages.share_items else data


def choice_for(data: CrowdData, *, num_clusters: int | None = None) -> Choice:
    """The candidates that suit some data.

    Parameters
    ----------
    data
        Items with features, and answers, if there are any.
    num_clusters
        An upper bound on the number of clusters; None leaves it to the data.

    Raises
    ------
    ValueError
        If the data have no features, or the bound is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> blobs = rng.normal(size=(90, 2)) + 9 * (np.arange(90) % 3)[:, None]
    >>> choice = choice_for(CrowdData(blobs))
    >>> len(choice.forms), choice.forms[-1].kind, choice.forms[-1].features
    (8, "full Student's t", 'powers')
    >>> result = choice.fit(num_starts=1, progress=False)
    >>> len(np.unique(result.assignments))
    3
    >>> result.chosen.reason
    'largest ELBO of 20 candidates; nothing held out'
    """
    check_data(data)
    data = _with_shared_pages(data)
    forms, least = forms_for(data), data.num_known_classes
    # Where people say how items are related, one cluster would leave nothing to be said.
    related = data.has_answers or data.links is not None
    if num_clusters is None:
        least = max(least, min(data.num_items, 2) if related else 1)
        sizes = [size for size in SIZES if least <= size < data.num_items] or [least]
    else:
        check_whole("num_clusters", num_clusters, least=1)
        least = max(least, 2 if related else 1)
        sizes = [size for size in SIZES if least <= size < num_clusters] + [num_clusters]
    first_size = max(size for size in sizes if size <= max(8, sizes[0]))
    max_groups = max(MAX_CLUSTERS, num_clusters or 0)
    choice = Choice(data, forms, sizes, first_size, max_groups=max_groups)
    if data.answers is None or is_supervised(data):
        return choice
    return replace(
        choice,
        may_be_records=num_clusters is None and may_be_records(data),
        alone=choice_for(data.with_answers(None), num_clusters=num_clusters),
    )
