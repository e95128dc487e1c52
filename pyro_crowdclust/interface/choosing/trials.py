"""A candidate that was tried, and by how much it is better than another."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.interface.candidates.forms import ANSWERS, Form
from pyro_crowdclust.results.clearly_better import error_of_mean

# Predictions of held-out answers that differ by less than this, in nats an answer, are as good.
SMALLEST_GAIN = 0.005
# A difference of ELBOs, in nats, below which none is strong evidence: odds of 20 to one (Kass and
# Raftery 1995).
SMALLEST_EVIDENCE = 3.0
# Features may count so much, from as they are to next to nothing: no model is the truth, and that
# of many features is the surest of itself.
WEIGHTS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.05)
# Regressions may be too sure as well, or not sure enough.
SHARPNESS = (1.0, 0.5, 0.7, 1.4, 2.0)
# Of candidates that answers cannot tell apart so many are tried on another split.
MOST_RIVALS = 4


@dataclass(frozen=True, eq=False)
class Trial:
    """A candidate that was tried.

    Attributes
    ----------
    form, num_components
        The candidate.
    elbo
        Nats an item, of all orders of the components (``log_orders``), as ``Form.to_compare`` has
        it; NaN of a form without a density of features.
    by_weight
        Log-probability of every held-out answer, a row for every weight of the features that the
        form can have (``weights_for``); None without answers.
    clusters
        In use.
    seconds
        Of its fits.
    by_item
        Log-density of every item but for what is the same for all numbers of components; None
        where something is said of the items.
    hears
        Whether answers, if there are any, were heard when it was fitted, and not the features
        alone.
    """

    form: Form
    num_components: int
    elbo: float
    by_weight: np.ndarray | None
    clusters: int
    seconds: float
    by_item: np.ndarray | None = None
    hears: bool = True

    @property
    def feature_weight(self) -> float:
        """The weight of the features that predicts the held-out answers best; 1 without any."""
        if self.by_weight is None:
            return 1.0
        return weights_for(self.form)[self.by_weight.mean(1).argmax()]

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


def table_of(trials: Sequence[Trial], best: Trial) -> pd.DataFrame:
    """The trials, a row each, and which of them was chosen."""
    return pd.DataFrame(
        {
            "features": [trial.form.features for trial in trials],
            "kind": [trial.form.kind for trial in trials],
            "components": [trial.num_components for trial in trials],
            "elbo": [trial.elbo for trial in trials],
            "held_out": [np.nan if trial.held_out is None else trial.score for trial in trials],
            "feature_weight": [trial.feature_weight for trial in trials],
            "clusters": [trial.clusters for trial in trials],
            "seconds": [trial.seconds for trial in trials],
            "hears": [trial.hears for trial in trials],
            "chosen": [trial is best for trial in trials],
        }
    )


def weights_for(form: Form) -> tuple[float, ...]:
    """How much features may count in what a candidate of some form says of an item, 1 first."""
    if form.of_features:
        return WEIGHTS
    return WEIGHTS[:1] if form == ANSWERS else SHARPNESS


def log_orders(assignments: Float[Tensor, "item component"]) -> float:
    """``log K! / (K - U)!``: what an ELBO gains from all orders of K components, U of them in use.

    With G orders pi of the components that are as likely a priori, q and every ``q_pi`` have the
    same ELBO, and their average ``q' = 1/G sum_pi q_pi`` has

        ELBO(q') = ELBO(q) + E_q[log q - log q'] <= ELBO(q) + log G,

    with equality where no two of them overlap, as when each component has items of its own (Bishop
    2006, 10.2.4). Orders of components without items are one and the same q. So an ELBO of one
    order is too low, by more the more components there are.

    Examples
    --------
    >>> import torch
    >>> round(log_orders(torch.eye(3)[[0, 0, 1]]), 3)  # log 6
    1.792
    """
    number, used = assignments.shape[1], len(assignments.argmax(1).unique())
    return math.lgamma(number + 1) - math.lgamma(number - used + 1)


def elbo_error(one: Trial, other: Trial) -> float:
    """Standard error of the difference of two ELBOs, as of other items of the same kind.

    That of the mean difference of the items' log-densities (Vuong 1989); 0 where these are unknown.
    """
    if one.by_item is None or other.by_item is None:
        return 0.0
    return error_of_mean(one.by_item - other.by_item)


def fewest_components(
    largest: Trial, trials: Sequence[Trial], are_alike: Callable[[Trial, Trial], bool]
) -> Trial:
    """Of the form of the largest ELBO the fewest components that do as well."""
    of_form = [trial for trial in trials if trial.form == largest.form]
    alike = [trial for trial in of_form if are_alike(largest, trial)]
    return min(alike, key=lambda trial: trial.num_components)


def is_within_error(larger: Trial, other: Trial) -> bool:
    """Whether the larger ELBO is so by no more than a standard error."""
    return larger.elbo - other.elbo <= elbo_error(larger, other)


def worth_another_split(rivals: Sequence[Trial]) -> list[Trial]:
    """Of candidates that do about as well those that can win: the best and the largest ELBOs."""
    best, *others = sorted(rivals, key=lambda trial: -trial.score)
    others.sort(key=lambda trial: -trial.elbo if trial.form.of_features else np.inf)
    return [best, *others[: MOST_RIVALS - 1]]
