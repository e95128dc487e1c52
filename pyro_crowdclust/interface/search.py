"""The trials of a choice: which candidates are fitted, to which part of the data."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float
from tqdm.auto import tqdm

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.callbacks import MergeMoves
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.interface.forms import Form, Place, ToCompare
from pyro_crowdclust.interface.held_out import (
    HeldOut,
    connected_items,
    distinct_items,
    some_items,
    split,
)
from pyro_crowdclust.interface.recipe import is_supervised
from pyro_crowdclust.interface.rereading import weighted
from pyro_crowdclust.minibatches.batch import full_batch
from pyro_crowdclust.training import Stopping

# Predictions of held-out answers that differ by less than this, in nats an answer, are as good.
SMALLEST_GAIN = 0.005
# Features may count so much, from as they are to next to nothing: no model is the truth, and that
# of many features is the surest of itself.
WEIGHTS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15)


# Of candidates that answers cannot tell apart so many are tried on another split.
MOST_RIVALS = 4


class Plan(Protocol):
    """What a search is told; see ``Choice``."""

    @property
    def data(self) -> CrowdData: ...
    @property
    def forms(self) -> Sequence[Form]: ...
    @property
    def sizes(self) -> Sequence[int]: ...
    @property
    def first_size(self) -> int: ...
    @property
    def share(self) -> float: ...
    @property
    def num_splits(self) -> int: ...
    @property
    def max_items(self) -> int: ...
    @property
    def best_forms(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Trial:
    """A candidate that was tried.

    Attributes
    ----------
    form, num_components
        The candidate.
    elbo
        Nats an item, as ``Form.to_compare`` has it; NaN of a form without a density of features.
    by_weight
        Log-probability of every held-out answer, a row for every weight of the features that the
        form can have (``WEIGHTS``); None without answers.
    clusters
        In use.
    seconds
        Of its fits.
    by_item
        Log-density of every item but for what is the same for all numbers of components; None
        where something is said of the items.
    """

    form: Form
    num_components: int
    elbo: float
    by_weight: np.ndarray | None
    clusters: int
    seconds: float
    by_item: np.ndarray | None = None

    @property
    def feature_weight(self) -> float:
        """The weight of the features that predicts the held-out answers best; 1 without any."""
        return 1.0 if self.by_weight is None else WEIGHTS[self.by_weight.mean(1).argmax()]

    @property
    def held_out(self) -> np.ndarray | None:
        """Log-probability of all that is held out at this weight; None of nothing."""
        return None if self.by_weight is None else self.by_weight[self.by_weight.mean(1).argmax()]

    @property
    def answers(self) -> np.ndarray:
        """Log-probability of all that is held out, if anything is."""
        return np.empty(0) if self.held_out is None else self.held_out

    @property
    def score(self) -> float:
        """What the search climbs: held-out answers, or the ELBO where there are none."""
        return self.elbo if self.held_out is None else float(self.held_out.mean())


class Search:
    """The trials of a choice."""

    def __init__(self, choice: Plan, seed: int, progress: bool) -> None:
        self.choice, self.seed = choice, seed
        self.trials: list[Trial] = []
        generator = torch.Generator().manual_seed(seed)
        data = choice.data
        if data.answers is None and not is_supervised(data):
            data = distinct_items(data)
        if data.num_items > choice.max_items:
            data = some_items(data, connected_items(data, choice.max_items, generator))
        made = [split(data, choice.share, generator) for _ in range(choice.num_splits)]
        splits = [one for one in made if one is not None]
        self.data, self.splits = data, splits
        # What forms make of the data, and what makes their ELBO comparable.
        self.coordinates: dict[tuple[Place, ToCompare], tuple[Identity, float]] = {}
        self.interrupted = False
        self.bar = tqdm(disable=not progress, unit="candidate")

    def best(self) -> tuple[Trial, str]:
        """Run the search; the winner and why it is."""
        try:
            return self.search()
        except KeyboardInterrupt:
            if not self.trials:
                raise
            self.interrupted = True
            best = max(self.trials, key=lambda trial: trial.score)
            return best, f"best of {len(self.trials)} candidates when the search was interrupted"

    def search(self) -> tuple[Trial, str]:
        """Try the candidates."""
        choice = self.choice
        with self.bar:
            first = self.first_trials()
            for of_features in (True, False):
                alike = [trial for trial in first if trial.form.of_features == of_features]
                for rank, trial in enumerate(self.in_order(alike)[: choice.best_forms]):
                    if of_features or trial.clusters == trial.num_components:
                        self.climb(trial, 1)
                    if of_features:
                        self.climb(trial, -1, to_end=rank == 0 and not self.splits)
            return self.by_answers() if self.splits else self.by_elbo()

    def first_trials(self) -> list[Trial]:
        """Every form with as many components, heavy tails of the kind that does best without."""
        forms = [form for form in self.choice.forms if form.of_features or self.splits]
        tried = [
            self.try_out(form, self.choice.first_size)
            for form in forms
            if form.heavier_than is None
        ]
        best = self.in_order([trial for trial in tried if trial.form.of_features])
        kind = best[0].form.kind if best else None
        heavy = [form for form in forms if form.heavier_than is not None]
        return tried + [
            self.try_out(form, self.choice.first_size)
            for form in heavy
            if kind in (form.heavier_than, None)
        ]

    def climb(self, trial: Trial, direction: int, to_end: bool = False) -> None:
        """Try ever more, or fewer, components until it has not paid twice in a row, or clearly not.

        Fewer that do as well are no loss. Or try them ``to_end``, as ELBOs of single starts go up
        and down where columns are many.
        """
        sizes = list(self.choice.sizes)
        place, best, losses = sizes.index(trial.num_components), trial, 0
        stride = 2 if self.splits else 1
        while to_end or losses < (1 if self.splits else 2):
            place += direction * stride
            if not 0 <= place < len(sizes):
                return
            found = self.try_out(trial.form, sizes[place])
            if self.in_order([best, found])[0] is found:
                best, losses = found, 0
                continue
            loss, error = best.elbo - found.elbo, elbo_error(best, found)
            if loss > 2 * error > 0 and not to_end:
                return
            losses = 0 if direction < 0 and loss <= error else losses + 1

    def try_out(self, form: Form, num_components: int, number: int = 0) -> Trial:
        """Fit a candidate without the answers of a split, and predict these."""
        started = time.perf_counter()
        self.bar.set_description(f"{form.kind} on {form.features}, {num_components} components")
        one = self.splits[number] if self.splits else None
        place = form.emission, form.to_compare
        if place not in self.coordinates:
            made = form.emission(self.data)
            features = self.data.rows(torch.arange(self.data.num_items))
            self.coordinates[place] = made, form.to_compare(made, features)
        emission, to_compare = self.coordinates[place]
        recipe = form.recipe(self.data if one is None else one.data, num_components, emission)
        # Other numbers of components are candidates of their own: merges would only cost time.
        moves = recipe.options.get("callbacks", [])
        callbacks = [move for move in moves if not isinstance(move, MergeMoves)]
        result = recipe.fit(
            progress=False,
            seed=self.seed,
            epochs=60,
            stopping=Stopping(tolerance=1e-3),
            callbacks=callbacks,
        )
        if result.stop_reason.startswith("interrupted") and self.trials:
            raise KeyboardInterrupt
        trial = Trial(
            form,
            num_components,
            result.elbo / self.data.num_items + to_compare if form.of_features else np.nan,
            None if one is None else self.at_weights(form, one, result),
            int((result.clusters["assigned_items"] > 0).sum()),
            time.perf_counter() - started,
            self.by_item(result),
        )
        if number == 0:
            self.trials.append(trial)
        self.bar.update()
        return trial

    @staticmethod
    def by_item(result: Fitted) -> Float[np.ndarray, " item"] | None:
        """``log sum_k pi_k p(x_i | k)``, but for constants, of items of which nothing is said."""
        data = result.data
        if data.has_answers or is_supervised(data):
            return None
        return result.guide.infer(full_batch(data)).logits.logsumexp(1).numpy()

    def by_elbo(self) -> tuple[Trial, str]:
        """The largest ELBO, or, of its form, the fewest components that do as well."""
        first = max(self.trials, key=lambda trial: trial.elbo)
        of_form = [trial for trial in self.trials if trial.form == first.form]
        alike = [one for one in of_form if first.elbo - one.elbo <= elbo_error(first, one)]
        best = min(alike, key=lambda trial: trial.num_components)
        said = f"of {len(self.trials)} candidates; nothing held out"
        if best is first:
            return best, f"largest ELBO {said}"
        return best, f"fewest components within a standard error of the largest ELBO {said}"

    @staticmethod
    def at_weights(form: Form, one: HeldOut, result: Fitted) -> np.ndarray:
        """What the held-out answers are worth to the result at every weight of the features."""
        # Of rows with gaps every weight would need their densities anew, which take most time.
        weights = WEIGHTS if form.of_features and not one.data.has_gaps else WEIGHTS[:1]
        each = (weighted(result, weight) for weight in weights)
        workers = result.guide.workers() if one.data.has_answers else None
        return np.stack([one.log_probability(of_weight, workers) for of_weight in each])

    def by_answers(self) -> tuple[Trial, str]:
        """The candidate with the largest ELBO of those that answers cannot tell from the best."""
        for number in range(1, len(self.splits)):
            rivals = self.rivals(self.trials)
            if len(rivals) == 1:
                break
            for trial in worth_another_split(rivals):
                again = self.try_out(trial.form, trial.num_components, number)
                found = [one.by_weight for one in (trial, again) if one.by_weight is not None]
                both = np.concatenate(found, 1)
                seconds = trial.seconds + again.seconds
                place = self.trials.index(trial)
                self.trials[place] = replace(trial, by_weight=both, seconds=seconds)
        rivals = self.rivals(self.trials, errors=1.0)
        first = max(rivals, key=lambda trial: trial.score)
        alike = [one for one in rivals if one.form.of_features == first.form.of_features]
        best = max(alike, key=lambda trial: trial.elbo) if first.form.of_features else first
        said = self.splits[0].sentence(best.score)
        if len(rivals) == 1:
            return best, f"{said}, better than by any other candidate"
        if not first.form.of_features:
            return best, f"{said}; {len(rivals) - 1} others do about as well"
        return best, f"{said}; of {len(alike)} candidates that do as well it has the largest ELBO"

    def rivals(self, trials: Sequence[Trial], errors: float = 2.0) -> list[Trial]:
        """Trials on as many splits as the best, not worse than it by so many standard errors."""
        most = max(len(trial.answers) for trial in trials)
        of_all = [trial for trial in trials if len(trial.answers) == most]
        best = max(of_all, key=lambda trial: trial.score)
        blocks = torch.cat([one.block for one in self.splits]).numpy()[:most]
        return [
            trial
            for trial in of_all
            if best.score - trial.score
            < max(errors * self.error(best, trial, blocks), SMALLEST_GAIN)
        ]

    def in_order(self, trials: Sequence[Trial]) -> list[Trial]:
        """Trials of one sort, best first: by the ELBO where held-out answers cannot tell them."""
        by_score = sorted(trials, key=lambda trial: -trial.score)
        if not self.splits or not trials or not trials[0].form.of_features:
            return by_score
        rivals = sorted(self.rivals(trials), key=lambda trial: -trial.elbo)
        return rivals + [trial for trial in by_score if trial not in rivals]

    @staticmethod
    def error(best: Trial, trial: Trial, blocks: np.ndarray) -> float:
        """Standard error of the mean difference, whose parts of one item are not independent."""
        difference = best.answers - trial.answers
        sums = np.bincount(blocks, difference - difference.mean())
        return float(np.sqrt(np.square(sums).sum()) / len(difference))


def elbo_error(one: Trial, other: Trial) -> float:
    """Standard error of the difference of two ELBOs, as of other items of the same kind.

    That of the mean difference of the items' log-densities (Vuong 1989); 0 where these are unknown.
    """
    if one.by_item is None or other.by_item is None:
        return 0.0
    return float((one.by_item - other.by_item).std() / np.sqrt(len(one.by_item)))


def worth_another_split(rivals: Sequence[Trial]) -> list[Trial]:
    """Of candidates that do about as well those that can win: the best and the largest ELBOs."""
    best, *others = sorted(rivals, key=lambda trial: -trial.score)
    others.sort(key=lambda trial: -trial.elbo if trial.form.of_features else np.inf)
    return [best, *others[: MOST_RIVALS - 1]]
