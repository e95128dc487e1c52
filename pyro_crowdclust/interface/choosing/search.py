"""The search over candidates: which are fitted, and to which part of the data."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from tqdm.auto import tqdm

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.data import some_items
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.interface.candidates.forms import ANSWERS, Form, MakeCoordinates, ToCompare
from pyro_crowdclust.interface.candidates.recipes import spread_over_steps
from pyro_crowdclust.interface.candidates.starts import other_starts
from pyro_crowdclust.interface.candidates.weights import weights_for
from pyro_crowdclust.interface.choosing.answer_predictiveness import (
    Draws,
    clusters_supported_by_answers,
    partition_predicts_best,
)
from pyro_crowdclust.interface.choosing.at_weights import AtWeights
from pyro_crowdclust.interface.choosing.fixed_components import (
    fits_at_fixed_components,
    joined_by_pages,
    scores_at_fixed_components,
)
from pyro_crowdclust.interface.choosing.held_out import HeldOut, split
from pyro_crowdclust.interface.choosing.held_out_pages import PlacementSplit
from pyro_crowdclust.interface.choosing.held_out_pairs import Split, ends_of
from pyro_crowdclust.interface.choosing.overlaps import with_overlaps_joined
from pyro_crowdclust.interface.choosing.plan import Plan
from pyro_crowdclust.interface.choosing.ranking import Ranking
from pyro_crowdclust.interface.choosing.rereading import with_feature_weight
from pyro_crowdclust.interface.choosing.subsets import (
    connected_items,
    distinct_items,
    without_near_copies,
)
from pyro_crowdclust.interface.choosing.trials import (
    Trial,
    elbo_error,
    worth_another_split,
)
from pyro_crowdclust.interface.choosing.unseen_answers import UnseenAnswers
from pyro_crowdclust.interface.recipe import is_supervised
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture.coarsening import coarsened_elbo
from pyro_crowdclust.mixture.orders import log_orders
from pyro_crowdclust.pooling.comparison import gain_by_a_part, is_clear
from pyro_crowdclust.restarts import best_first
from pyro_crowdclust.training import Stopping, completed, is_interrupted
from pyro_crowdclust.training.isolation import generator_of

# The end of the reason why clusters were not learned from answers.
ALONE = (
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
# With fewer held-out answers about items without other answers, it is not clear that they are
# not predicted.
_MIN_OTHERS = 40


class Search:
    """A search over the candidates of a plan.

    Parameters
    ----------
    plan
        The data, and what to try.
    seed
        Seed of starts, items and splits.
    progress
        Whether to show a progress bar.
    """

    def __init__(self, plan: Plan, seed: int, progress: bool) -> None:
        self.plan, self.seed = plan, seed
        self.trials: list[Trial] = []
        generator = generator_of(seed)
        data = distinct_items(plan.data)
        if data.num_items > plan.max_items:
            data = some_items(data, connected_items(data, plan.max_items, generator))
        num_items = data.num_items
        if plan.max_groups is not None:
            data = without_near_copies(data, plan.max_groups)
        self.num_near_copies = num_items - data.num_items
        made = [split(data, plan.share, generator) for _ in range(plan.num_splits)]
        splits = [one for one in made if one is not None]
        self.data, self.splits = data, splits
        self.ranking = Ranking(splits, data.num_items)
        # The coordinates of each form, and the term that makes its ELBO comparable.
        self.coordinates: dict[tuple[MakeCoordinates, ToCompare], tuple[Identity, float]] = {}
        self.draws = Draws(max(plan.sizes), seed)
        # What decides at components of the features alone, if it is not the splits.
        self.parts: list[PlacementSplit] = []
        self.interrupted = self.found_records = False
        # The fits of the trials, if nothing is held out.
        self.fits: list[Fitted] = []
        # The search without answers, and its winner.
        self.of_features: tuple[Search, Trial] | None = None
        # Answers by which the fits of that search are read, if they do.
        self.unseen: UnseenAnswers | None = None
        self.bar = tqdm(disable=not progress, unit="candidate")

    def best(self) -> tuple[Trial, str]:
        """Run the search; returns the winner, and the reason for it."""
        try:
            return self.search()
        except KeyboardInterrupt:
            if not self.trials:
                raise
            self.interrupted = True
            # Trials without answers have an ELBO only, which does not compare with held-out scores.
            best = max(self.trials, key=lambda trial: (trial.held_out is not None, trial.score))
            return best, f"best of {len(self.trials)} candidates when the search was interrupted"

    def search(self) -> tuple[Trial, str]:
        """Try the candidates, with the answers and, if nothing predicts these, without them."""
        by_features = self.plan.by_features
        if by_features is not None and not self.splits:
            trial, fitted = self.without_answers(by_features)
            trial = self.joined_by_pages(trial, fitted)
            few = "there are too few answers to hold some out"
            few += " for every candidate" if self.parts else ""
            return trial, f"{few}: {_JOINED if trial.joins else ALONE}"
        best, reason = self.best_with_answers()
        if self.plan.may_be_records:
            fit_best = partial(self.complete_fit_of, best)
            self.found_records = partition_predicts_best(self.data, self.seed, fit_best)
            if self.found_records:
                return best, reason
        if by_features is None:
            return best, reason
        if self.predicts_answers(best):
            by_answers = self.by_answers_instead(best)
            return (best, reason) if by_answers is None else (by_answers, _BY_ANSWERS)
        trial, fitted = self.without_answers(by_features)
        by_answers = (
            None
            if fitted is None
            else self.answers_only_trial(fits_at_fixed_components(trial, fitted))
        )
        if by_answers is not None:
            return by_answers, _BY_ANSWERS
        if trial.clusters == 1:  # answers cannot make it worse
            return best, reason
        trial = self.joined_by_pages(trial, fitted)
        if trial.joins:
            return trial, f"no candidate predicts held-out placements clearly: {_JOINED}"
        return trial, f"nothing predicts held-out answers clearly better than chance: {ALONE}"

    def best_with_answers(self) -> tuple[Trial, str]:
        """Try the candidates on the data with all supervision."""
        with self.bar:
            first = self.first_trials()
            for of_features in (True, False):
                same_sort = [trial for trial in first if trial.form.of_features == of_features]
                for rank, trial in enumerate(
                    self.ranking.in_order(same_sort)[: self.plan.best_forms]
                ):
                    if of_features or trial.clusters == trial.num_components:
                        self.climb(trial, 1)
                    self.climb(trial, -1, to_end=rank == 0 and not self.splits)
            return self.by_answers() if self.splits else self.ranking.by_elbo(self.trials)

    def predicts_answers(self, best: Trial) -> bool:
        """Whether some candidate predicts held-out answers clearly better than chance.

        Chance knows how often each worker gives each label, and nothing about the items. All
        candidates count that were tried on as many splits as the best.
        """
        number = len(best.answers)
        chance, ends = self.by_chance(number)
        return any(
            is_clear(gain_by_a_part(trial.answers, chance), ends, len(self.trials))
            for trial in self.trials
            if len(trial.answers) == number
        )

    def by_answers_instead(self, best: Trial) -> Trial | None:
        """Clusters from answers alone, where features say too little about items without answers.

        Where most items have answers, some of the held-out answers are about items with others in
        the fit, and those are predicted by any clusters to which answers can move items. So answers
        about other items decide. If there are too few of these, clusters from answers alone are
        used if they predict the others clearly better.

        Returns
        -------
        The trial of clusters from answers alone; None to keep the best.
        """
        number = len(best.answers)
        splits = [one for one in self.splits if isinstance(one, Split)]
        if not splits:  # partitions are not drawn beside pages
            return None
        of_others = np.concatenate([one.of_others for one in splits])[:number]
        if of_others.all():
            return None
        if of_others.sum() < _MIN_OTHERS:
            return self.answers_only_trial(
                lambda data: with_feature_weight(
                    self.complete_fit_of(best, data), best.feature_weight
                )
            )
        chance, ends = self.by_chance(number)
        gain = gain_by_a_part(best.answers, chance)
        is_predicted = is_clear(gain[of_others], ends[:, of_others], 1)
        return None if is_predicted else self.answers_only_trial(None)

    def by_chance(
        self, number: int
    ) -> tuple[Float[np.ndarray, " pair"], Int[np.ndarray, "2 pair"]]:
        """Log-probabilities by chance of the first held-out answers, and their two ends.

        These are the items of a pair, or the item and the page of a placement.
        """
        splits = [one for one in self.splits if isinstance(one, Split | PlacementSplit)]
        chance = np.concatenate([one.by_chance for one in splits])
        return chance[:number], ends_of(splits)[:, :number]

    def without_answers(self, plan: Plan) -> tuple[Trial, Fitted | None]:
        """The winner of a search without answers, whose components depend on the features alone.

        Returns its fit, too, if there are held-out answers, or placements.
        """
        search, best = self.search_without_answers(plan)
        self.interrupted = search.interrupted
        trial = None if self.splits or search.interrupted else self.read_by_answers(plan)
        if trial is None:
            trial = self.add_without_answers(search.trials, best)
        if search.interrupted or not (self.splits or self.data.placements is not None):
            return trial, None
        fitted = with_overlaps_joined(search.complete_fit_of(trial, search.data))
        if self.splits:
            fits = [fitted] * len(self.splits)
            by_weight = scores_at_fixed_components(fits, self.data, self.splits)
            scored = replace(trial, by_weight=by_weight)
            self.trials[self.trials.index(trial)] = trial = scored
        return trial, fitted

    def search_without_answers(self, plan: Plan) -> tuple[Search, Trial]:
        """A search without answers, which is run only once, and its winner."""
        if self.of_features is None:
            search = Search(plan, self.seed, not self.bar.disable)
            self.of_features = search, search.best()[0]
        return self.of_features

    def read_by_answers(self, plan: Plan) -> Trial | None:
        """What comes nearest to how all answers read the candidates without them (``unseen``).

        None if the answers cannot read them.

        Raises
        ------
        KeyboardInterrupt
            If the search without answers was interrupted.
        """
        search, best = self.search_without_answers(plan)
        if search.interrupted:
            raise KeyboardInterrupt
        self.unseen = UnseenAnswers.of(self.plan.data, search.fits, self.seed)
        if self.unseen is None:
            return None
        place = self.unseen.better_than(search.trials.index(best))
        return self.add_without_answers(search.trials, search.trials[place])

    def add_without_answers(self, trials: Sequence[Trial], best: Trial) -> Trial:
        """Let these trials be those without answers; returns the best as it is among them."""
        added = [replace(one, by_item=None, uses_answers=False) for one in trials]
        self.trials = [*(one for one in self.trials if one.uses_answers), *added]
        return added[trials.index(best)]

    def answers_only_trial(self, by_features: Callable[[CrowdData], Fitted] | None) -> Trial | None:
        """Clusters from answers alone, if they predict answers better than those of features."""
        number = clusters_supported_by_answers(self.data, self.draws, by_features)
        return None if number is None else self.try_out(ANSWERS, number)

    def joined_by_pages(self, trial: Trial, fitted: Fitted | None) -> Trial:
        """The winner without answers, if pages show some of its components to be one, with these.

        Parameters
        ----------
        trial, fitted
            The winner without answers, and its fit.
        """
        if fitted is None:
            return trial
        found, parts = joined_by_pages(trial, fitted, self.data, self.seed, bool(self.splits))
        if parts:
            self.trials[self.trials.index(trial)] = found
            self.parts = parts
        return found

    def chance_of(self, best: Trial) -> float | None:
        """Mean log-probability by chance of all that a trial was scored by; None if of nothing."""
        splits = self.parts or self.splits
        if not splits:
            return None
        sizes = [len(one.block) for one in splits]
        used = int(np.searchsorted(np.cumsum(sizes), len(best.answers))) + 1
        chances = [one.chance for one in splits[:used]]
        return float(np.average(chances, weights=sizes[:used]))

    def first_trials(self) -> list[Trial]:
        """Every form with ``first_size`` components; heavy tails only for the best kind without."""
        forms = [form for form in self.plan.forms if form.of_features or self.splits]
        tried = [
            self.try_out(form, self.plan.first_size) for form in forms if form.heavier_than is None
        ]
        best = self.ranking.in_order([trial for trial in tried if trial.form.of_features])
        kind = best[0].form.kind if best else None
        heavy = [form for form in forms if form.heavier_than is not None]
        return tried + [
            self.try_out(form, self.plan.first_size)
            for form in heavy
            if kind in (form.heavier_than, None)
        ]

    def climb(self, trial: Trial, direction: int, to_end: bool = False) -> None:
        """Try more and more (or fewer and fewer) components until there were two losses in a row.

        With held-out answers, one loss ends it. Fewer components that do as well are no loss; fewer
        that are clearly worse end it at once. ``to_end`` tries all numbers, as ELBOs of single
        starts go up and down where there are many columns.
        """
        sizes = list(self.plan.sizes)
        place, best, losses = sizes.index(trial.num_components), trial, 0
        stride = 2 if self.splits else 1
        while to_end or losses < (1 if self.splits else 2):
            place += direction * stride
            if not 0 <= place < len(sizes):
                return
            found = self.try_out(trial.form, sizes[place])
            # A regression that leaves clusters empty does not need more of them.
            to_spare = not trial.form.of_features and found.clusters < found.num_components
            if direction > 0 and to_spare:
                return
            if self.ranking.is_better(found, best, direction):
                best, losses = found, 0
                continue
            loss, error = best.elbo - found.elbo, elbo_error(best, found)
            if direction < 0 and loss > 2 * error > 0 and not to_end:
                return
            losses = 0 if direction < 0 and loss <= error else losses + 1

    def try_out(self, form: Form, num_components: int, number: int = 0) -> Trial:
        """Fit a candidate to a split, and score what is held out."""
        started = time.perf_counter()
        self.bar.set_description(f"{form.kind} on {form.features}, {num_components} components")
        one = self.splits[number] if self.splits else None
        result = self.fit_of(form, num_components, self.data if one is None else one.data)
        if is_interrupted(result) and self.trials:
            raise KeyboardInterrupt
        trial = Trial(
            form,
            num_components,
            self.elbo_of(form, result),
            None if one is None else self.at_weights(form, one, result),
            int((result.clusters["assigned_items"] > 0).sum()),
            time.perf_counter() - started,
            self.by_item(result),
            self.coarsened_elbo_of(form, result),
        )
        if number == 0:
            self.trials.append(trial)
            if not self.splits:
                self.fits.append(result)
        if is_interrupted(result):
            raise KeyboardInterrupt
        self.bar.update()
        return trial

    def elbo_of(self, form: Form, result: Fitted) -> float:
        """The ELBO in nats an item, comparable between forms and numbers of components."""
        if not form.of_features:
            return np.nan
        elbo = result.elbo + log_orders(result.component_probabilities)
        return elbo / self.data.num_items + self.coordinates_of(form)[1]

    def coarsened_elbo_of(self, form: Form, result: Fitted) -> float | None:
        """The same of the coarsened posterior; None if there is supervision."""
        data = result.data
        if not form.of_features or data.has_answers or is_supervised(data):
            return None
        number, sites = data.num_items, (result.model.priors(), result.guide.posteriors)
        elbo = coarsened_elbo(result.elbo, *sites, number)
        return (elbo + log_orders(result.component_probabilities)) / number

    def fit_of(self, form: Form, num_components: int, data: CrowdData) -> Fitted:
        """Fit a candidate briefly, from one start or from the better of two."""
        recipe = form.recipe(data, num_components, self.coordinates_of(form)[0])
        options: dict[str, Any] = {"epochs": form.epochs, "stopping": Stopping(tolerance=1e-3)}
        attempt = partial(recipe.fit, progress=False, seed=self.seed, **options)
        if not form.of_features:
            return attempt(initialize=self.draws.start_of(data))
        others = other_starts(recipe, data)
        return best_first([attempt, *(partial(attempt, initialize=other) for other in others)])[0]

    def complete_fit_of(self, trial: Trial, data: CrowdData) -> Fitted:
        """Fit a candidate that was tried to other data; raises if the fit is interrupted."""
        return completed(self.fit_of(trial.form, trial.num_components, data))

    def coordinates_of(self, form: Form) -> tuple[Identity, float]:
        """The coordinates of a form, and the term that makes its ELBO comparable."""
        place = form.make_coordinates, form.to_compare
        if place not in self.coordinates:
            made = form.make_coordinates(self.data)
            fitted = spread_over_steps(self.data, made)
            features = fitted.rows(torch.arange(fitted.num_items))
            self.coordinates[place] = made, form.to_compare(made, features)
        return self.coordinates[place]

    @staticmethod
    def by_item(result: Fitted) -> Float[np.ndarray, " item"] | None:
        """``log sum_k pi_k p(x_i | k)`` up to constants; None if there is supervision."""
        data = result.data
        if data.has_answers or is_supervised(data):
            return None
        return result.guide.infer(full_batch(data)).logits.logsumexp(1).numpy()

    @staticmethod
    def at_weights(form: Form, one: HeldOut, result: Fitted) -> AtWeights:
        """Scores of what is held out, at every weight of the features."""
        each = (with_feature_weight(result, weight) for weight in weights_for(form))
        workers = result.guide.workers() if one.data.has_answers else None
        return AtWeights.of(one, each, workers)

    def by_answers(self) -> tuple[Trial, str]:
        """The best by answers; among those that answers do not distinguish, by the ELBO."""
        for number in range(1, len(self.splits)):
            rivals = self.ranking.rivals(self.trials)
            if len(rivals) == 1:
                break
            for trial in worth_another_split(rivals):
                again = self.try_out(trial.form, trial.num_components, number)
                found = [one.by_weight for one in (trial, again) if one.by_weight is not None]
                both = AtWeights.of_all(found)
                seconds = trial.seconds + again.seconds
                place = self.trials.index(trial)
                self.trials[place] = replace(trial, by_weight=both, seconds=seconds)
        rivals = self.ranking.rivals(self.trials, errors=1.0)
        first = max(rivals, key=lambda trial: trial.score)
        same_sort = [one for one in rivals if one.form.of_features == first.form.of_features]
        best = self.ranking.largest_elbo(same_sort) if first.form.of_features else first
        sentence = self.splits[0].sentence(best.score)
        if len(rivals) == 1:
            return best, f"{sentence}, better than by any other candidate"
        if not first.form.of_features:
            return best, f"{sentence}; {len(rivals) - 1} others do about as well"
        return (
            best,
            f"{sentence}; of {len(same_sort)} candidates that do as well it has the largest ELBO",
        )
