"""A choice, not a default: which model of the features suits them, and the answers.

Candidates differ in the coordinates of the features (standardized, made symmetric, principal
directions), in what covariances components have, and in how many components there are. What decides
is how well answers about items are predicted whose answers were kept out of the fit, and, where
answers cannot tell or there are none, the ELBO, in the units of the features for all candidates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from tqdm.auto import tqdm

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.callbacks import LearnedPrior, OwnershipMoves
from pyro_crowdclust.emissions import Emission, Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.interface.coordinates import (
    in_common_units,
    power_transformed,
    projected,
    standardized,
)
from pyro_crowdclust.interface.held_out import some_items, split
from pyro_crowdclust.interface.recipe import FULL_BATCH_NUMBERS, Recipe, feature_shape
from pyro_crowdclust.mixture import (
    Components,
    DiagonalGaussianComponents,
    DirichletWeights,
    GaussianComponents,
    Ownership,
)
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.restarts import fit_restarts
from pyro_crowdclust.results.chosen import Chosen
from pyro_crowdclust.starts import AnswersStart, TrustingStart
from pyro_crowdclust.training import Stopping, robbins_monro

# Full covariances of more features than this have more numbers than tables have items.
MOST_FULL = 50
# Where a learned prior begins: components are expected to have a fifth of the data's variance, so
# that they neither all fall into one nor keep single items.
FIRST_SCALE = 0.2
# Predictions of held-out answers that differ by less than this, in nats an answer, are as good.
SMALLEST_GAIN = 0.005
SIZES = (2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40)


def full(num_components: int, dim: int) -> GaussianComponents:
    """Full covariances around a common one; how near to it they are is learned."""
    degrees = dim + 2.0
    return GaussianComponents(
        num_components, dim, concentration=0.05, scale=FIRST_SCALE * degrees, degrees=degrees
    )


def diagonal(num_components: int, dim: int) -> DiagonalGaussianComponents:
    """Independent features inside a component."""
    return DiagonalGaussianComponents(
        num_components, dim, concentration=0.05, scale=FIRST_SCALE * 3.0, degrees=3.0
    )


@dataclass(frozen=True)
class Form:
    """How the features are modelled, but for the number of components.

    Attributes
    ----------
    features
        What the components are on, in words.
    covariance
        What covariances they have, in a word.
    emission
        Makes the coordinates from the data.
    components
        Makes the components from their number and the number of coordinates.
    """

    features: str
    covariance: str
    emission: Callable[[CrowdData], Emission]
    components: Callable[[int, int], Components]

    def recipe(
        self, data: CrowdData, num_components: int, emission: Emission | None = None
    ) -> Recipe:
        """The model with so many components, its guide and the options of ``fit``.

        ``emission`` is what the form makes of the data, where that is known.
        """
        emission = self.emission(data) if emission is None else emission
        dim = emission.latent_size(int(np.prod(feature_shape(data))))
        components = self.components(num_components, dim)
        answered = data.answers is not None
        # Better than chance before the first answer is compared with another.
        annotators = TwoCoin(data.num_workers, (2.0, 1.0), (2.0, 1.0)) if answered else None
        model = SemiCrowdsourcedMixture(
            DirichletWeights(num_components),
            components,
            emission,
            annotators,
            sum_out_assignments=None if answered else torch.float64,
            ownership=Ownership(num_components) if answered and num_components > 1 else None,
        )
        options: dict[str, Any] = {"epochs": 100, "dtype": torch.float64}
        options["stopping"] = Stopping(tolerance=1e-4)
        if data.num_items * components.family.size <= FULL_BATCH_NUMBERS:
            options |= {"batch_size": None, "step_size": 1.0}
        else:
            options |= {
                **{"epochs": 20, "batch_size": 1024, "stopping": Stopping(tolerance=1e-3)},
                **{"step_size": robbins_monro(0.5, delay=20.0)},
            }
        options["callbacks"] = [LearnedPrior()]
        if model.ownership is not None:
            options["callbacks"].append(OwnershipMoves())
        options["initialize"] = TrustingStart()
        return Recipe(model, MessagePassingGuide(model), data, options)


def forms_for(data: CrowdData) -> tuple[Form, ...]:
    """The forms that suit features of this size."""
    dim = int(np.prod(feature_shape(data)))
    forms = []
    if dim <= MOST_FULL:
        forms += [
            Form("columns", "full", standardized, full),
            Form("columns", "diagonal", standardized, diagonal),
            Form("powers", "full", power_transformed, full),
            Form("powers", "diagonal", power_transformed, diagonal),
        ]
        if dim > 12:
            forms += [
                Form("8 directions", "full", partial(_directions, standardized, 8), full),
                Form(
                    "8 directions of powers",
                    "full",
                    partial(_directions, power_transformed, 8),
                    full,
                ),
            ]
        return tuple(forms)
    for number in (10, 20, 40):
        if number < min(dim, data.num_items):
            inner = partial(_directions, in_common_units, number)
            forms.append(Form(f"{number} directions, common units", "full", inner, full))
    inner = partial(_directions, standardized, min(20, data.num_items - 1))
    forms.append(Form("20 directions", "full", inner, full))
    return tuple(forms)


def _directions(inner: Callable[[CrowdData], Identity], number: int, data: CrowdData) -> Emission:
    return projected(data, inner(data), number)


@dataclass(frozen=True)
class Trial:
    """A candidate that was tried.

    Attributes
    ----------
    form, num_components
        The candidate.
    elbo
        Nats an item, in the units of the features.
    held_out
        Log-probability of every held-out answer; None without answers.
    clusters
        In use.
    seconds
        Of its fits.
    """

    form: Form
    num_components: int
    elbo: float
    held_out: np.ndarray | None
    clusters: int
    seconds: float

    @property
    def answers(self) -> np.ndarray:
        """Log-probability of every held-out answer; of none without answers."""
        return np.empty(0) if self.held_out is None else self.held_out

    @property
    def score(self) -> float:
        """What the search climbs: held-out answers, or the ELBO where there are none."""
        return self.elbo if self.held_out is None else float(self.held_out.mean())


@dataclass(frozen=True)
class Choice:
    """Candidates for some data, ready to look at or change before it runs.

    Attributes
    ----------
    data
        Items and answers.
    forms
        The ways to model the features that are compared, all with ``first_size`` components.
    sizes
        Numbers of components, ascending. From ``first_size`` the best forms go up and down
        them as long as that pays.
    first_size
        One of ``sizes``.
    share
        Share of the answered items whose answers are held out.
    num_splits
        So many different shares are held out, the second and later ones for candidates that the
        first could not tell from the best.
    max_items
        Candidates run on so many items, those with answers first.
    best_forms
        Of so many forms other numbers of components are tried.
    """

    data: CrowdData
    forms: Sequence[Form]
    sizes: Sequence[int] = SIZES
    first_size: int = 8
    share: float = 0.25
    num_splits: int = 3
    max_items: int = 2000
    best_forms: int = 2

    def run(self, *, seed: int = 0, progress: bool = True) -> tuple[Recipe, Chosen]:
        """Try the candidates; the recipe of the best on all data, and how it was chosen.

        Parameters
        ----------
        seed
            Of starts, items and splits.
        progress
            Show which candidate is being tried.
        """
        return self._found(_Search(self, seed, progress))

    def _found(self, search: _Search) -> tuple[Recipe, Chosen]:
        best, reason = search.best()
        table = pd.DataFrame(
            {
                "features": [trial.form.features for trial in search.trials],
                "covariance": [trial.form.covariance for trial in search.trials],
                "components": [trial.num_components for trial in search.trials],
                "elbo": [trial.elbo for trial in search.trials],
                "held_out": [
                    np.nan if trial.held_out is None else trial.score for trial in search.trials
                ],
                "clusters": [trial.clusters for trial in search.trials],
                "seconds": [trial.seconds for trial in search.trials],
                "chosen": [trial is best for trial in search.trials],
            }
        )
        chance = search.splits[0].chance if search.splits else None
        recipe = best.form.recipe(self.data, best.num_components)
        return recipe, Chosen(table, reason, chance)

    def fit(
        self, *, num_starts: int = 3, seed: int = 0, progress: bool = True, **changes: Any
    ) -> Fitted:
        """Choose, then fit the chosen candidate to all data from several starts.

        Parameters
        ----------
        num_starts
            Starts from the features, with seeds from ``seed`` on; where there are answers, one from
            these comes to them. The fit with the largest ELBO is kept.
        seed, progress
            As of ``run``.
        changes
            Options of ``fit`` in place of the recipe's.

        Raises
        ------
        ValueError
            As ``fit`` does, and for a number of starts below 1.
        """
        if num_starts < 1:
            raise ValueError(f"num_starts is {num_starts}, but must be at least 1")
        search = _Search(self, seed, progress)
        recipe, chosen = self._found(search)
        options = recipe.options | {"progress": progress} | changes
        parts = recipe.model, recipe.guide, self.data
        if search.interrupted:
            fitted = fit(*parts, seed=seed, **options)
            reason = "interrupted by the user while candidates were tried: the best so far"
            return replace(fitted, chosen=chosen, stop_reason=reason)
        fits = fit_restarts(*parts, seeds=range(seed, seed + num_starts), **options)[:1]
        if self.data.answers is not None and "initialize" not in changes:
            options["initialize"] = _OrFeatures(AnswersStart())
            fits.append(fit(*parts, seed=seed, **options))
        best = fits[0] if len(fits) == 1 else max(fits, key=lambda fitted: fitted.elbo)
        return replace(best, chosen=chosen)


@dataclass(frozen=True)
class _OrFeatures:
    """A start from answers, or from features where the answers keep nobody together."""

    start: AnswersStart
    other: TrustingStart = field(default_factory=TrustingStart)

    def __call__(self, *arguments: Any) -> None:
        try:
            self.start(*arguments)
        except ValueError:
            self.other(*arguments)


class _Search:
    """The trials of a choice."""

    def __init__(self, choice: Choice, seed: int, progress: bool) -> None:
        self.choice, self.seed = choice, seed
        self.trials: list[Trial] = []
        generator = torch.Generator().manual_seed(seed)
        data = choice.data
        if data.num_items > choice.max_items:
            data = some_items(data, _asked_first(data, choice.max_items, generator))
        splits = []
        if data.answers is not None:
            made = [split(data, choice.share, generator) for _ in range(choice.num_splits)]
            splits = [one for one in made if one is not None]
        self.data, self.splits = data, splits
        # What a form makes of the data, and the mean of log p(o) - log p(x).
        self.coordinates: dict[Form, tuple[Emission, float]] = {}
        self.interrupted = False
        self.bar = tqdm(disable=not progress, unit="candidate")

    def best(self) -> tuple[Trial, str]:
        """Run the search; the winner and why it is."""
        try:
            return self.search()
        except KeyboardInterrupt:
            self.interrupted = True
            best = max(self.trials, key=lambda trial: trial.score)
            return best, f"best of {len(self.trials)} candidates when the search was interrupted"

    def search(self) -> tuple[Trial, str]:
        """Try the candidates."""
        choice = self.choice
        with self.bar:
            first = [self.try_out(form, choice.first_size) for form in choice.forms]
            first.sort(key=lambda trial: -trial.score)
            for trial in first[: choice.best_forms]:
                self.climb(trial, 1)
                self.climb(trial, -1)
            if not self.splits:
                best = max(self.trials, key=lambda trial: trial.elbo)
                return best, f"largest ELBO of {len(self.trials)} candidates; no answers held out"
            return self.by_answers()

    def climb(self, trial: Trial, direction: int) -> None:
        """Try ever more, or fewer, components until it has not paid twice in a row."""
        sizes = list(self.choice.sizes)
        place, best, losses = sizes.index(trial.num_components), trial.score, 0
        stride = 2 if self.splits else 1
        while losses < (1 if self.splits else 2):
            place += direction * stride
            if not 0 <= place < len(sizes):
                return
            found = self.try_out(trial.form, sizes[place]).score
            losses = 0 if found > best else losses + 1
            best = max(best, found)

    def try_out(self, form: Form, num_components: int, number: int = 0) -> Trial:
        """Fit a candidate without the answers of a split, and predict these."""
        started = time.perf_counter()
        self.bar.set_description(f"{form.features}, {form.covariance}, {num_components} components")
        one = self.splits[number] if self.splits else None
        if form not in self.coordinates:
            made = form.emission(self.data)
            features = self.data.rows(torch.arange(self.data.num_items))
            self.coordinates[form] = made, float(made.log_volume(features).mean())
        emission, volume = self.coordinates[form]
        recipe = form.recipe(self.data if one is None else one.data, num_components, emission)
        stopping = Stopping(tolerance=1e-3)
        result = recipe.fit(progress=False, seed=self.seed, epochs=60, stopping=stopping)
        if result.stop_reason.startswith("interrupted") and self.trials:
            raise KeyboardInterrupt
        trial = Trial(
            form,
            num_components,
            result.elbo / self.data.num_items + volume,
            None if one is None else one.log_probability(result),
            int((result.clusters["assigned_items"] > 0).sum()),
            time.perf_counter() - started,
        )
        if number == 0:
            self.trials.append(trial)
        self.bar.update()
        return trial

    def by_answers(self) -> tuple[Trial, str]:
        """The candidate with the largest ELBO of those that answers cannot tell from the best."""
        for number in range(1, len(self.splits)):
            rivals = self.rivals()
            if len(rivals) == 1:
                break
            for trial in rivals:
                again = self.try_out(trial.form, trial.num_components, number)
                both = np.concatenate([trial.answers, again.answers])
                seconds = trial.seconds + again.seconds
                place = self.trials.index(trial)
                self.trials[place] = replace(trial, held_out=both, seconds=seconds)
        rivals = self.rivals()
        best = max(rivals, key=lambda trial: trial.elbo)
        said = f"answers about held-out items are predicted at {best.score:.3f} nats an answer"
        if len(rivals) == 1:
            return best, f"{said}, better than by any other candidate"
        return best, f"{said}; of {len(rivals)} candidates that do as well it has the largest ELBO"

    def rivals(self) -> list[Trial]:
        """Trials on as many splits as the best, not clearly worse than it."""
        most = max(len(trial.answers) for trial in self.trials)
        of_all = [trial for trial in self.trials if len(trial.answers) == most]
        best = max(of_all, key=lambda trial: trial.score)
        blocks = torch.cat([one.block for one in self.splits]).numpy()[:most]
        return [
            trial
            for trial in of_all
            if best.score - trial.score < max(self.error(best, trial, blocks), SMALLEST_GAIN)
        ]

    @staticmethod
    def error(best: Trial, trial: Trial, blocks: np.ndarray) -> float:
        """Standard error of the mean difference, whose parts of one item are not independent."""
        difference = best.answers - trial.answers
        sums = np.bincount(blocks, difference - difference.mean())
        return float(np.sqrt(np.square(sums).sum()) / len(difference))


def _asked_first(data: CrowdData, number: int, generator: torch.Generator) -> torch.Tensor:
    """Positions of so many items, at most half of them for their answers, the others at random."""
    order = torch.rand(data.num_items, generator=generator)
    if data.answers is not None:
        asked = torch.cat([data.answers.left, data.answers.right]).unique()
        asked = asked[torch.randperm(len(asked), generator=generator)[: 3 * number // 4]]
        order[asked] -= 1
    return order.argsort()[:number].sort().values


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
    >>> rng = np.random.default_rng(0)
    >>> blobs = rng.normal(size=(90, 2)) + 9 * (np.arange(90) % 3)[:, None]
    >>> choice = choice_for(CrowdData(blobs))
    >>> [form.features for form in choice.forms]
    ['columns', 'columns', 'powers', 'powers']
    >>> result = choice.fit(progress=False)
    >>> len(np.unique(result.assignments))
    3
    >>> result.chosen.reason
    'largest ELBO of 20 candidates; no answers held out'
    """
    forms = forms_for(data)
    if num_clusters is None:
        sizes = [size for size in SIZES if size < data.num_items] or [1]
        return Choice(data, forms, sizes, max(size for size in sizes if size <= 8))
    if num_clusters < 1:
        raise ValueError(f"num_clusters is {num_clusters}, but must be at least 1")
    sizes = [size for size in SIZES if size < num_clusters] + [num_clusters]
    return Choice(data, forms, sizes, max(size for size in sizes if size <= max(8, sizes[0])))
