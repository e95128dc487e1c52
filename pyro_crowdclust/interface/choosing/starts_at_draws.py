"""Fits of a candidate that start at partitions drawn from the answers."""

from __future__ import annotations

from typing import Any

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.guides import drawn_groups
from pyro_crowdclust.interface.candidates.forms import Form
from pyro_crowdclust.mixture.orders import log_orders
from pyro_crowdclust.starts import GroupsStart
from pyro_crowdclust.training import completed

# The partitions are the consensus of so many chains of draws, and that of each.
_CHAINS = 3
# Components of each group; more than one, so that items without a group can have their own.
_COMPONENTS = 1.0, 1.5


def better_from_draws(
    fitted: Fitted, form: Form, data: CrowdData, max_components: int, **options: Any
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
    options
        Options of the fits, as for ``fit``.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C.
    """
    found, seed = [fitted], fitted.seed
    for groups in drawn_groups(data, max_components, seed=seed, max_chains=_CHAINS):
        number = int(groups.max()) + 1
        for each in _COMPONENTS if number else ():
            recipe = form.recipe(data, min(round(each * number), max_components))
            attempt = recipe.fit(seed=seed, initialize=GroupsStart(groups), **options)
            found.append(completed(attempt))
    best = max(found, key=_comparable_elbo)
    return None if best is fitted else best


def _comparable_elbo(fitted: Fitted) -> float:
    """The ELBO over all orders of the components, comparable between numbers of components."""
    return fitted.elbo + log_orders(fitted.component_probabilities)
