"""Fits of a chosen candidate to all data, and how they are read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.data import some_items
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.interface.choosing.label_check import LabelCheck
from pyro_crowdclust.interface.choosing.overlaps import with_classes_joined, with_overlaps_joined
from pyro_crowdclust.interface.choosing.rereading import with_feature_weight
from pyro_crowdclust.interface.choosing.several_starts import best_of_starts
from pyro_crowdclust.interface.choosing.subsets import connected_items
from pyro_crowdclust.interface.choosing.trials import Trial
from pyro_crowdclust.interface.recipe import Recipe, is_supervised, labels_alone
from pyro_crowdclust.protocols import part_of
from pyro_crowdclust.starts import FittedStart
from pyro_crowdclust.training import RobbinsMonro, is_interrupted

# Once a fit to some of the items has found the clusters, a few small steps on all are enough.
_AFTER_PART: dict[str, Any] = {"epochs": 3, "step_size": RobbinsMonro(0.05, delay=50.0)}


def complete_fit(
    best: Trial,
    recipe: Recipe,
    data: CrowdData,
    part_items: int,
    seeds: range,
    options: dict[str, Any],
    check: LabelCheck | None = None,
) -> Fitted:
    """The best of several fits of a candidate to all data, or one that starts at a part of them.

    Parameters
    ----------
    best, recipe, data
        The candidate, its recipe for the data, and these.
    part_items
        Where all items need minibatches, so many are fitted first, which saves many epochs.
    seeds, options
        Seeds of the starts, and options of the fits.
    check
        Where there are only known labels, what compares the starts by these.
    """
    if recipe.options["batch_size"] is not None and "initialize" not in options:
        generator = torch.Generator().manual_seed(seeds[0])
        part = some_items(data, connected_items(data, part_items, generator))
        emission = part_of(recipe.model, "emission", Identity)
        of_part = best_of_starts(
            best.form.recipe(part, best.num_components, emission), part, seeds, options, check
        )
        start = FittedStart(of_part.model, of_part.guide, of_part.data.num_items)
        options = _AFTER_PART | {"initialize": start} | options
        fitted = recipe.fit(seed=seeds[0], **options)
        reason = (of_part if is_interrupted(of_part) else fitted).stop_reason
        return replace(fitted, stop_reason=reason)
    if labels_alone(data) and recipe.options["batch_size"] is None:
        # From labels, many components may stay on a plateau for long, as they did in the trial.
        options = {"epochs": max(best.form.epochs, recipe.options["epochs"])} | options
    return best_of_starts(recipe, data, seeds, options, check)


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
    if labels_alone(data):  # every cluster of a regression is a class already
        return with_classes_joined(fitted) if best.form.of_features else fitted
    if data.has_answers or is_supervised(data):
        return fitted
    return with_overlaps_joined(fitted)
