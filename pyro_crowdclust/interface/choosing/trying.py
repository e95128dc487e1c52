"""Candidates are fitted to a part of the data, and scored by what was held out of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from tqdm.auto import tqdm

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.data import some_items
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.interface.about_data import is_of_features_alone
from pyro_crowdclust.interface.candidates.forms import MAX_ITEMS, Form
from pyro_crowdclust.interface.candidates.near_copies import MAX_CLUSTERS
from pyro_crowdclust.interface.candidates.recipes import spread_over_steps
from pyro_crowdclust.interface.candidates.starts import other_starts
from pyro_crowdclust.interface.candidates.weights import weights_for
from pyro_crowdclust.interface.choosing.answer_predictiveness import Draws
from pyro_crowdclust.interface.choosing.at_weights import AtWeights
from pyro_crowdclust.interface.choosing.merging import joined_partition
from pyro_crowdclust.interface.choosing.ranking import Ranking
from pyro_crowdclust.interface.choosing.rereading import with_feature_weight
from pyro_crowdclust.interface.choosing.search_space import SIZES, SearchSpace
from pyro_crowdclust.interface.choosing.subsets import (
    connected_items,
    without_near_copies,
)
from pyro_crowdclust.interface.choosing.trials import Trial
from pyro_crowdclust.interface.holding_out.splits import HeldOut, split
from pyro_crowdclust.interface.recipe import Recipe
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture.coarsening import coarsened_elbo
from pyro_crowdclust.mixture.orders import log_orders
from pyro_crowdclust.restarts import best_first
from pyro_crowdclust.starts import PartitionStart
from pyro_crowdclust.training import Stopping, is_interrupted, uninterrupted
from pyro_crowdclust.training.isolation import generator_of

# Share of the answered items whose answers are held out. If most items have answers, the same
# number of answers is held out, some of them about pairs of other items (``pair_split``).
_SHARE = 0.25
# Number of different shares that are held out. The second and later ones are used for candidates
# that the first does not distinguish from the best.
NUM_SPLITS = 3
# So many numbers of components further lies the fit from which another starts.
_STEPS_UP = 2


class Candidates:
    """The candidates of a search space, which are tried one after the other on a part of its data.

    Parameters
    ----------
    space
        The data, and what to try.
    seed
        Seed of starts, items and splits.
    progress
        Whether to show a progress bar.

    Attributes
    ----------
    data
        Distinct items without near-copies, at most ``MAX_ITEMS`` of them, those with answers first.
    splits
        What is held out of these, in several ways; empty if there is too little.
    trials
        What was tried so far.
    fits
        The fits of the trials, if nothing is held out.
    """

    def __init__(self, space: SearchSpace, seed: int, progress: bool) -> None:
        self.space, self.seed = space, seed
        generator = generator_of(seed)
        data = space.distinct
        if data.num_items > MAX_ITEMS:
            data = some_items(data, connected_items(data, MAX_ITEMS, generator))
        num_items = data.num_items
        if not space.keeps_near_copies:
            data = without_near_copies(data, max(MAX_CLUSTERS, space.num_clusters or 0))
        self.num_near_copies = num_items - data.num_items
        made = [split(data, _SHARE, generator) for _ in range(NUM_SPLITS)]
        self.data = data
        self.splits: list[HeldOut] = [one for one in made if one is not None]
        self.ranking = Ranking(self.splits, data.num_items)
        self.draws = Draws(space.max_clusters, seed)
        self.trials: list[Trial] = []
        self.fits: list[Fitted] = []
        self.bar = tqdm(disable=not progress, unit="candidate")
        # The coordinates of each form, and the term that makes its ELBO comparable.
        self._coordinates: dict[Form, tuple[Identity, float]] = {}

    @property
    def are_of_features(self) -> bool:
        """Whether the data are features alone: there are no answers, labels or links."""
        return is_of_features_alone(self.data)

    def try_out(self, form: Form, num_components: int, number: int = 0) -> Trial:
        """Fit a candidate to a split, and score what is held out, unless that was done before.

        Parameters
        ----------
        form, num_components
            The candidate.
        number
            Of the split.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C. A first candidate is kept as far as it came.
        """
        place = self.place_of(form, num_components)
        if number == 0 and place is not None:
            return self.trials[place]
        started = time.perf_counter()
        self.bar.set_description(f"{form.name}, {num_components} components")
        one = self.splits[number] if self.splits else None
        result = self.fit_of(form, num_components, self.data if one is None else one.data)
        if is_interrupted(result) and self.trials:
            raise KeyboardInterrupt
        by_weight = None if one is None else at_weights(form, one, result)
        trial = self._trial_of(form, num_components, result, by_weight, started)
        if number == 0:
            self.trials.append(trial)
            if not self.splits:
                self.fits.append(result)
        if is_interrupted(result):
            raise KeyboardInterrupt
        self.bar.update()
        return trial

    def _trial_of(
        self,
        form: Form,
        num_components: int,
        result: Fitted,
        by_weight: AtWeights | None,
        started: float,
    ) -> Trial:
        return Trial(
            form,
            num_components,
            self.elbo_of(form, result),
            by_weight,
            int((result.clusters["assigned_items"] > 0).sum()),
            time.perf_counter() - started,
            _by_item(result),
            _coarsened_elbo(form, result),
        )

    def try_again(self, form: Form, num_components: int) -> None:
        """Fit a candidate without supervision again, from a fit with half as many more components.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C.
        """
        sizes = [size for size in SIZES if num_components < size < self.data.num_items]
        if not sizes:
            return
        size = sizes[:_STEPS_UP][-1]
        if size in self.space.sizes:
            self.try_out(form, size)
            self.try_joined(form, num_components, size)
        else:  # it cannot be chosen
            larger = uninterrupted(self.fit_of(form, size, self.data))
            self._start_joined(form, num_components, larger)

    def try_joined(self, form: Form, num_components: int, larger: int) -> None:
        """Fit a candidate without supervision from one that was tried, with components joined.

        Single starts with few components often end in poor optima. This fit takes the place of the
        trial with as many components, if there is one, and if its ELBO is larger.

        Parameters
        ----------
        form, num_components
            The candidate.
        larger
            Number of components of the other one.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C.
        """
        self._start_joined(form, num_components, self.known_fit(form, larger))

    def _start_joined(self, form: Form, num_components: int, larger: Fitted) -> None:
        started = time.perf_counter()
        self.bar.set_description(f"{form.name}, {num_components} components")
        start = PartitionStart(joined_partition(larger, num_components))
        recipe = self._recipe(form, num_components, self.data)
        result = uninterrupted(self._brief(form, recipe)(initialize=start))
        trial = self._trial_of(form, num_components, result, None, started)
        self.bar.update()
        place = self.place_of(form, num_components)
        if place is None:
            self.trials.append(trial)
            self.fits.append(result)
        elif trial.elbo > self.trials[place].elbo:
            seconds = trial.seconds + self.trials[place].seconds
            self.trials[place], self.fits[place] = replace(trial, seconds=seconds), result

    def place_of(self, form: Form, num_components: int) -> int | None:
        """The place of a candidate among the trials; None if it was not tried."""
        for place, trial in enumerate(self.trials):
            if trial.form == form and trial.num_components == num_components:
                return place
        return None

    def known_fit(self, form: Form, num_components: int) -> Fitted:
        """The fit of a candidate that was tried, if nothing is held out."""
        place = self.place_of(form, num_components)
        assert place is not None  # as it was tried
        return self.fits[place]

    def exchange(self, trial: Trial, other: Trial) -> None:
        """Put a trial in the place of another, which has other scores."""
        self.trials[self.trials.index(trial)] = other

    def fit_of(self, form: Form, num_components: int, data: CrowdData) -> Fitted:
        """Fit a candidate briefly, from one start or from the better of two."""
        recipe = self._recipe(form, num_components, data)
        attempt = self._brief(form, recipe)
        if not form.of_features:
            return attempt(initialize=self.draws.start_of(data))
        others = other_starts(recipe, data)
        return best_first([attempt, *(partial(attempt, initialize=other) for other in others)])[0]

    def _recipe(self, form: Form, num_components: int, data: CrowdData) -> Recipe:
        return form.recipe(data, num_components, self.coordinates_of(form)[0])

    def _brief(self, form: Form, recipe: Recipe) -> Callable[..., Fitted]:
        """Brief fits of a candidate; ``initialize`` is their start."""
        stopping = Stopping(tolerance=1e-3)
        options: dict[str, Any] = {"epochs": form.epochs, "stopping": stopping}
        return partial(recipe.fit, progress=False, seed=self.seed, **options)

    def brief_fit_of(self, trial: Trial, data: CrowdData) -> Fitted:
        """The brief fit to other data of a candidate that was tried.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C.
        """
        return uninterrupted(self.fit_of(trial.form, trial.num_components, data))

    def coordinates_of(self, form: Form) -> tuple[Identity, float]:
        """The coordinates of a form, and the term that makes its ELBO comparable."""
        if form not in self._coordinates:
            made = form.make_coordinates(self.data)
            fitted = spread_over_steps(self.data, made)
            features = fitted.all_rows()
            self._coordinates[form] = made, form.to_compare(made, features)
        return self._coordinates[form]

    def elbo_of(self, form: Form, result: Fitted) -> float:
        """The ELBO in nats an item, comparable between forms and numbers of components."""
        if not form.of_features:
            return np.nan
        elbo = result.elbo + log_orders(result.component_probabilities)
        return elbo / self.data.num_items + self.coordinates_of(form)[1]


def at_weights(form: Form, one: HeldOut, result: Fitted) -> AtWeights:
    """Scores of what is held out, at every weight of the features that a form can have."""
    each = (with_feature_weight(result, weight) for weight in weights_for(form))
    workers = result.guide.workers() if one.data.has_answers else None
    return AtWeights.of(one, each, workers)


def _coarsened_elbo(form: Form, result: Fitted) -> float | None:
    """The ELBO in nats an item of the coarsened posterior; None if there is supervision."""
    data = result.data
    if not form.of_features or not is_of_features_alone(data):
        return None
    number, sites = data.num_items, (result.model.priors(), result.guide.posteriors)
    elbo = coarsened_elbo(result.elbo, *sites, number)
    return (elbo + log_orders(result.component_probabilities)) / number


def _by_item(result: Fitted) -> Float[np.ndarray, " item"] | None:
    """``log sum_k pi_k p(x_i | k)`` up to constants; None if there is supervision."""
    data = result.data
    if not is_of_features_alone(data):
        return None
    return result.guide.infer(full_batch(data)).logits.logsumexp(1).numpy()
