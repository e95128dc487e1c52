"""Fits of a candidate from several starts: features, answers, and partitions drawn from these."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.guides import drawn_groups
from pyro_crowdclust.interface.candidates.forms import Form
from pyro_crowdclust.interface.candidates.starts import other_starts
from pyro_crowdclust.interface.choosing.label_check import KeptFit, LabelCheck
from pyro_crowdclust.interface.recipe import Recipe
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture.orders import log_orders
from pyro_crowdclust.restarts import best_first
from pyro_crowdclust.starts import AnswersStart, GroupsStart, PartitionStart, TrustingStart
from pyro_crowdclust.training import uninterrupted

# The partitions are the consensus of so many chains of draws, and that of each.
_CHAINS = 3
# Components of each group; more than one, so that items without a group can have their own.
_COMPONENTS = 1.0, 1.5


def best_of_starts(
    recipe: Recipe,
    data: CrowdData,
    seeds: range,
    changes: dict[str, Any],
    check: LabelCheck | None = None,
    tried: Fitted | None = None,
) -> KeptFit:
    """The fit with the largest ELBO among several starts from features, and one from answers.

    There may be one more from known labels, or from columns of numbers only (``other_starts``). One
    from the clusters of a brief fit takes the place of the last of several from features. A check
    of known labels may prefer another of these fits. ``data`` are those of the recipe, before
    rounding steps are filled by noise.
    """
    options = recipe.options | changes
    if "initialize" not in options:  # the guide has a start of its own
        return KeptFit(recipe.fit(seed=seeds[0], **changes))
    attempt = partial(fit, recipe.model, recipe.guide, **options)
    others: list[Callable[..., None]] = []
    if "initialize" not in changes:
        others += other_starts(recipe, data)
        if data.answers is not None and data.known is None:
            others.append(_start_from_answers)
        if tried is not None:
            seeds = seeds[: max(len(seeds) - 1, 1)]
            batch = full_batch(recipe.data).to(tried.device, torch.float64)
            others.append(PartitionStart(tried.guide.infer(batch).assignments.cpu()))
    attempts = [partial(attempt, seed=seed) for seed in seeds]
    attempts += [partial(attempt, seed=seeds[0], initialize=other) for other in others]
    if check is not None:
        return check.best(attempts, recipe.data)
    return KeptFit(best_first(partial(one, recipe.data) for one in attempts)[0])


def _start_from_answers(*arguments: Any) -> None:
    """A start from answers, or from features if the answers join no items."""
    try:
        AnswersStart()(*arguments)
    except ValueError:
        TrustingStart()(*arguments)


def better_from_draws(
    fitted: Fitted,
    form: Form,
    data: CrowdData,
    max_components: int,
    max_clusters: int | None = None,
    **options: Any,
) -> Fitted | None:
    """The best fit from starts at drawn partitions, if its ELBO is larger; otherwise None.

    People may see several kinds where the features show one cluster. The components of these kinds
    are nearly the same, so that no start from the features moves their items apart.

    Parameters
    ----------
    fitted
        A fit of a mixture to the data, before its features are given a weight.
    form
        Its form.
    data
        Items and answers.
    max_components
        Largest number of components.
    max_clusters
        Largest number of clusters; None: the same.
    options
        Options of the fits, as for ``fit``.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C.
    """
    found, seed = [fitted], fitted.seed
    most = max_components if max_clusters is None else max_clusters
    for groups in drawn_groups(data, most, seed=seed, max_chains=_CHAINS):
        number = int(groups.max()) + 1
        for each in _COMPONENTS if number else ():
            recipe = form.recipe(data, min(round(each * number), max_components))
            attempt = recipe.fit(seed=seed, initialize=GroupsStart(groups), **options)
            found.append(uninterrupted(attempt))
    # Over all orders of the components, ELBOs are comparable between numbers of components.
    best = max(found, key=lambda one: one.elbo + log_orders(one.component_probabilities))
    return None if best is fitted else best
