"""Fits with known labels as the only supervision, compared by labels that are held out of them.

The ELBO of a mixture is nearly that of the features. Where classes are not kinds of the features,
a start may lose the classes and have the larger ELBO: its components are alike, and those of the
labelled items differ in nothing but the label. So the fits themselves, and not only the candidates,
are repeated without a fold of the labels at a time.

Labels speak of their own classes only: items of a class without any label are predicted just as
well if they are in a cluster of another class, and so are those of a class with a single one, which
is never held out. Whether there are more kinds is thus left to the ELBO.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.interface.candidates.forms import Form
from pyro_crowdclust.interface.candidates.suited_forms import regressions_for
from pyro_crowdclust.interface.candidates.weights import weights_for
from pyro_crowdclust.interface.choosing.at_weights import AtWeights
from pyro_crowdclust.interface.choosing.reasons import (
    FROM_OTHER_START,
    FROM_REGRESSION,
    with_reason,
)
from pyro_crowdclust.interface.choosing.rereading import with_feature_weight
from pyro_crowdclust.interface.choosing.trials import Trial
from pyro_crowdclust.interface.holding_out.known_classes import KnownSplit, known_folds
from pyro_crowdclust.interface.searches import table_of
from pyro_crowdclust.pooling.comparison import SMALLEST_EVIDENCE, is_clearly_better
from pyro_crowdclust.restarts import best_first
from pyro_crowdclust.results import Chosen
from pyro_crowdclust.results.chosen import INTERRUPTED
from pyro_crowdclust.training import is_interrupted, uninterrupted

# Parts of the known labels, each of which is held out once.
_FOLDS = 4
# Another fit takes the place of the usual one if it is better by more than this many errors, and by
# evidence that would also count as a difference of ELBOs.
_ERRORS = 1.0
# A mixture with more than this share of the items in clusters of which held-out labels say nothing
# found new kinds; clusters without a label count if labels of random items would all miss them with
# less than this probability.
_MAX_NEW = 0.05
_BY_CHANCE = 0.05


@dataclass(frozen=True)
class KeptFit:
    """The fit that is kept of several to the same data.

    Attributes
    ----------
    fitted
        The fit.
    held
        Log-probabilities of the known labels by it, each held out once; None if none are held out.
    items
        Ids of the items with these labels.
    is_other
        Whether another has a larger ELBO.
    """

    fitted: Fitted
    held: Float[np.ndarray, " label"] | None = None
    items: pd.Index | None = None
    is_other: bool = False


@dataclass(frozen=True)
class LabelCheck:
    """Compares fits to data with known labels by these labels.

    Attributes
    ----------
    data
        All distinct items of the fit, with known labels.
    feature_weight
        The weight of the features at which the chosen candidate is read.
    seed
        Of the folds.
    trials
        The candidates that were tried.
    options
        Options of the fits.
    """

    data: CrowdData
    feature_weight: float
    seed: int
    trials: Sequence[Trial]
    options: Mapping[str, Any]

    def best(self, attempts: Sequence[Callable[[CrowdData], Fitted]], data: CrowdData) -> KeptFit:
        """The fit with the largest ELBO, or one that predicts held-out labels clearly better.

        Where the former found new kinds, the other must have found as many items of such, but for a
        twentieth of all.

        Parameters
        ----------
        attempts
            Functions that fit a candidate to data, each from its own start.
        data
            What they are fitted to: all items, or a part.
        """
        fits: list[Fitted] = []

        def noted(attempt: Callable[[CrowdData], Fitted]) -> Fitted:
            fits.append(attempt(data))
            return fits[-1]

        usual = best_first(partial(noted, attempt) for attempt in attempts)[0]
        folds = _folds(data, self.seed)
        if is_interrupted(usual) or not folds:
            return KeptFit(usual)
        weights = (self.feature_weight,)
        try:
            scores = [_predicted(attempt, folds, weights) for attempt in attempts]
            held = [one.log_probabilities[0] for one in scores]
        except KeyboardInterrupt:  # the fits are there, though nothing has compared them
            return KeptFit(replace(usual, stop_reason=INTERRUPTED))
        place = next(number for number, one in enumerate(fits) if one is usual)
        least = _share_of_new_kinds(usual) - _MAX_NEW
        rivals = [number for number, one in enumerate(fits) if _share_of_new_kinds(one) >= least]
        best = max(rivals, key=lambda number: held[number].mean())
        is_other = _predicts_better(held[best], held[place])
        kept = best if is_other else place
        return KeptFit(fits[kept], held[kept], _items(data, folds), is_other)

    def checked(self, kept: KeptFit, best: Trial, chosen: Chosen) -> tuple[Trial, Fitted, Chosen]:
        """A candidate with its fit and how it was chosen, or a regression in their place.

        Parameters
        ----------
        kept
            The best mixture.
        best, chosen
            Its candidate, and how this was chosen.
        """
        if kept.is_other:
            chosen = with_reason(chosen, FROM_OTHER_START)
        try:
            found = self.regression_instead(kept)
        except KeyboardInterrupt:
            return best, replace(kept.fitted, stop_reason=INTERRUPTED), chosen
        if found is None:
            return best, kept.fitted, chosen
        trial, regression = found
        assert kept.held is not None  # as a regression was compared with these
        why = FROM_REGRESSION.format(trial.score, kept.held.mean())
        table = table_of([*self.trials, trial], trial)
        instead = Chosen(table, chosen.reason, self.chance)
        return trial, regression, with_reason(instead, why)

    def regression_instead(self, mixture: KeptFit) -> tuple[Trial, Fitted] | None:
        """A regression of the classes on the features, if it predicts held-out labels better.

        Its clusters are the classes, so that it has none for new kinds, and hardly a sign of which
        items are of a class with a single label: a mixture that found such kinds is kept. So is one
        that was checked by other labels, as of a part with some of them.

        Parameters
        ----------
        mixture
            The best mixture.

        Returns
        -------
        A trial of the regression with its fit; None to keep the mixture.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C.
        """
        held, data = mixture.held, self.data
        if held is None or "initialize" in self.options:
            return None
        if not _items(data, self._of_all).equals(mixture.items):
            return None
        if _share_of_new_kinds(mixture.fitted) > _MAX_NEW:
            return None
        trials = [self._trial(form) for form in regressions_for(data)]
        best = max(trials, key=lambda trial: trial.score)
        if not _predicts_better(best.log_probabilities, held):
            return None
        recipe = best.form.recipe(data, best.num_components)
        return best, uninterrupted(recipe.fit(seed=self.seed, **self.options))

    @property
    def chance(self) -> float:
        """Mean log-probability of the held-out labels by the shares of the classes."""
        folds = self._of_all
        return float(np.average([one.chance for one in folds], weights=[*map(_size, folds)]))

    @cached_property
    def _of_all(self) -> list[KnownSplit]:
        """The folds of all items."""
        return _folds(self.data, self.seed)

    def _trial(self, form: Form) -> Trial:
        started, data = time.perf_counter(), self.data
        number = data.num_known_classes
        coordinates = form.make_coordinates(data)

        def attempt(part: CrowdData) -> Fitted:
            recipe = form.recipe(part, number, coordinates)
            return recipe.fit(seed=self.seed, **{**self.options, "progress": False})

        by_weight = _predicted(attempt, self._of_all, weights_for(form))
        seconds = time.perf_counter() - started
        return Trial(form, number, np.nan, by_weight, number, seconds)


def _predicts_better(one: Float[np.ndarray, " label"], other: Float[np.ndarray, " label"]) -> bool:
    """Whether held-out labels are clearly likelier by one fit than by another."""
    is_evidence = (one - other).sum() > SMALLEST_EVIDENCE
    return bool(is_evidence) and is_clearly_better(one, other, _ERRORS)


def _share_of_new_kinds(fitted: Fitted) -> float:
    """The share of the items in clusters of which held-out labels say nothing.

    These are clusters without a label, unless labels may have missed them: with a share s of the
    items, L labels of random items all miss them with probability (1 - s)^L. And clusters in which
    at least half of the labels are the only one of their class, which is never held out.
    """
    known = fitted.data.needed_known.numpy()
    is_labelled = known >= 0
    counts = np.bincount(known[is_labelled])
    is_only = is_labelled & (counts[known] == 1)
    labels, only, sizes = (
        np.bincount(fitted.assignments[some], minlength=int(fitted.assignments.max()) + 1)
        for some in (is_labelled, is_only, slice(None))
    )
    unlabelled = sizes[labels == 0].sum() / len(known)
    if (1 - unlabelled) ** is_labelled.sum() >= _BY_CHANCE:
        unlabelled = 0.0
    unchecked = sizes[(only > 0) & (2 * only >= labels)].sum() / len(known)
    return float(unlabelled + unchecked)


def _folds(data: CrowdData, seed: int) -> list[KnownSplit]:
    return known_folds(data, _FOLDS, torch.Generator().manual_seed(seed))


def _items(data: CrowdData, folds: Sequence[KnownSplit]) -> pd.Index:
    """Ids of the items whose labels are held out, in the order of the folds."""
    return data.item_ids[torch.cat([one.item for one in folds]).numpy()]


def _size(one: KnownSplit) -> int:
    return len(one.item)


def _predicted(
    attempt: Callable[[CrowdData], Fitted], folds: Sequence[KnownSplit], weights: Sequence[float]
) -> AtWeights:
    """The scores of the labels of all folds, each by a fit without it.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C.
    """
    of_folds = []
    for one in folds:
        fitted = uninterrupted(attempt(one.data))
        reads = (with_feature_weight(fitted, weight) for weight in weights)
        of_folds.append(AtWeights.of(one, reads, None))
    return AtWeights.of_all(of_folds)
