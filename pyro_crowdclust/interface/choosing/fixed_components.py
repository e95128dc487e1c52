"""What held-out answers say of components that are learned from the features alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.interface.candidates.weights import WEIGHTS
from pyro_crowdclust.interface.choosing.at_weights import AtWeights
from pyro_crowdclust.interface.choosing.rereading import with_answers_added, with_components_joined
from pyro_crowdclust.interface.choosing.trials import Trial
from pyro_crowdclust.interface.holding_out.pages import PlacementSplit, placement_parts
from pyro_crowdclust.interface.holding_out.pairs import ends_of
from pyro_crowdclust.interface.holding_out.splits import HeldOut
from pyro_crowdclust.pooling.comparison import gain_by_a_part, is_clear
from pyro_crowdclust.training.isolation import generator_of


def fits_at_fixed_components(trial: Trial, fitted: Fitted) -> Callable[[CrowdData], Fitted] | None:
    """A function that adds answers to the clusters of the winner without answers.

    Parameters
    ----------
    trial, fitted
        The winner without answers, and its fit.

    Returns
    -------
    From data with answers to a fit, or None if the winner has a single cluster.
    """
    if trial.clusters == 1:
        return None
    return lambda data: with_answers_added(fitted, data, trial.feature_weight)


def scores_at_fixed_components(
    fits: Sequence[Fitted], data: CrowdData, splits: Sequence[HeldOut]
) -> AtWeights:
    """Scores of held-out answers if answers do not change the components.

    If all answers are the same, rates of workers explain them, whatever the items are, and they are
    no reason to let features count less.

    Parameters
    ----------
    fits
        A fit to the features alone for every split.
    data
        All answers.
    splits
        What is held out of them.
    """
    said = data.answers
    weights = WEIGHTS[:1] if said is not None and len(said.label.unique()) == 1 else WEIGHTS
    of_splits = []
    for fitted, one in zip(fits, splits, strict=True):
        read = (with_answers_added(fitted, one.data, weight) for weight in weights)
        of_splits.append(AtWeights.of(one, read, None))
    return AtWeights.of_all(of_splits)


def joined_by_pages(
    trial: Trial, fitted: Fitted, data: CrowdData, seed: int, is_weighed: bool
) -> tuple[Trial, list[PlacementSplit]]:
    """The winner without answers, with components that pages show to be one cluster joined.

    That is a single hypothesis about the items, so that few placements can tell whether it is
    better than chance: each is predicted once, from those of other items (at full weight of the
    features).

    Parameters
    ----------
    trial, fitted
        The winner without answers, and its fit.
    data
        All answers.
    seed
        Of the parts of the items.
    is_weighed
        Whether something was held out that decides how much the features count.

    Returns
    -------
    The trial as it is, and nothing, if there are hardly any placements, or one cluster. Otherwise
    the trial with the parts that score it: if joined components are not clearly better than chance,
    they decide how much the features count, unless others were held out for that.
    """
    if data.placements is None or trial.clusters == 1:
        return trial, []
    parts = placement_parts(data, generator_of(seed))
    if not parts:
        return trial, []
    fits = [with_components_joined(fitted, one.data) for one in parts]
    of_items, of_any = (
        np.concatenate([ask(one, fit) for one, fit in zip(parts, fits, strict=True)])
        for ask in (PlacementSplit.log_probability, PlacementSplit.of_any_item)
    )
    joins = is_clear(gain_by_a_part(of_items, of_any), ends_of(parts), 1)
    if not joins and is_weighed:
        return trial, []
    fits = fits if joins else [fitted] * len(parts)
    by_weight = scores_at_fixed_components(fits, data, parts)
    return replace(trial, by_weight=by_weight, joins=joins), parts
