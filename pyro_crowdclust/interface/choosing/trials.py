"""Trials: candidates with their scores, and how two of them compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyro_crowdclust.interface.candidates.forms import Form
from pyro_crowdclust.interface.candidates.weights import weights_for
from pyro_crowdclust.interface.choosing.at_weights import AtWeights
from pyro_crowdclust.pooling.comparison import error_of_mean

# Predictions of held-out answers that differ by less than this, in nats an answer, count as equal.
MIN_GAIN = 0.005
# A trial is a rival of the best if it is less than the first number of standard errors below it. At
# the end, and between two ELBOs, it is as good as the best within the second.
RIVAL_ERRORS, EQUAL_ERRORS = 2.0, 1.0
# Of candidates that held-out answers do not distinguish, this many are tried on another split.
MAX_RIVALS = 4


@dataclass(frozen=True, eq=False)
class Trial:
    """A candidate that was tried.

    Attributes
    ----------
    form, num_components
        The candidate.
    elbo
        ELBO in nats an item, over all orders of the components (``log_orders``), made comparable by
        ``Form.to_compare``; NaN for a form without a density of features.
    by_weight
        Scores of all held-out answers, a row for every weight of the features that the form can
        have (``weights_for``); None without answers.
    clusters
        Number of clusters in use.
    seconds
        Duration of its fits.
    by_item
        Log-density of every item, up to constants that do not depend on the number of components;
        None if there is any supervision.
    coarsened
        The same as ``elbo``, of the coarsened posterior (``mixture.coarsened_elbo``), comparable in
        one form; None if there is any supervision.
    uses_answers
        Whether it was fitted to the answers, too, if there are any, and not to the features alone.
    joins
        Whether sorted pages say which components are one cluster, though these were fitted to the
        features alone.
    """

    form: Form
    num_components: int
    elbo: float
    by_weight: AtWeights | None
    clusters: int
    seconds: float
    by_item: np.ndarray | None = None
    coarsened: float | None = None
    uses_answers: bool = True
    joins: bool = False

    @property
    def feature_weight(self) -> float:
        """The weight of the features that predicts the held-out answers best; 1 without any."""
        if self.by_weight is None:
            return 1.0
        return weights_for(self.form)[self.by_weight.best]

    @property
    def log_probabilities(self) -> np.ndarray:
        """Of everything that is held out, at this weight; empty if nothing is."""
        if self.by_weight is None:
            return np.empty(0)
        return self.by_weight.log_probabilities[self.by_weight.best]

    @property
    def score(self) -> float:
        """What the search maximizes: the score of held-out answers, or the ELBO without any."""
        return self.elbo if self.by_weight is None else float(self.log_probabilities.mean())

    @property
    def row(self) -> dict[str, Any]:
        """Its row in the table of the choice."""
        return {
            "features": self.form.features,
            "kind": self.form.kind,
            "components": self.num_components,
            "elbo": self.elbo,
            "held_out": np.nan if self.by_weight is None else self.score,
            "splits": 0 if self.by_weight is None else self.by_weight.num_splits,
            "feature_weight": self.feature_weight,
            "clusters": self.clusters,
            "seconds": self.seconds,
            "uses_answers": self.uses_answers or self.joins,
        }


def elbo_error(one: Trial, other: Trial) -> float:
    """Standard error of the difference of two ELBOs, over other items from the same distribution.

    It is that of the mean difference of the items' log-densities (Vuong 1989), and 0 if these are
    unknown.
    """
    if one.by_item is None or other.by_item is None:
        return 0.0
    return error_of_mean(one.by_item - other.by_item)


def fewest_components(
    largest: Trial, trials: Sequence[Trial], are_equal: Callable[[Trial, Trial], bool]
) -> Trial:
    """The trial with the fewest components that does as well as the largest, in the same form."""
    as_good = [trial for trial in of_form(largest, trials) if are_equal(largest, trial)]
    return min(as_good, key=lambda trial: trial.num_components)


def of_form(one: Trial, trials: Sequence[Trial]) -> list[Trial]:
    """The trials in the form of one of them."""
    return [trial for trial in trials if trial.form == one.form]


def is_within_error(larger: Trial, other: Trial, errors: float = EQUAL_ERRORS) -> bool:
    """Whether two ELBOs differ by no more than so many standard errors."""
    return larger.elbo - other.elbo <= errors * elbo_error(larger, other)


def worth_another_split(rivals: Sequence[Trial]) -> list[Trial]:
    """Those of equally good candidates that can win: the best and those with the largest ELBOs."""
    best, *others = sorted(rivals, key=lambda trial: -trial.score)
    others.sort(key=lambda trial: -trial.elbo if trial.form.of_features else np.inf)
    return [best, *others[: MAX_RIVALS - 1]]
