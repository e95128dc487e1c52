"""The prior of a mixture's components at its optimum for their posteriors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from pyro_crowdclust.distributions.priors import ConjugatePosterior


@torch.no_grad()
def learn_prior(model: Any, posteriors: Mapping[str, ConjugatePosterior]) -> bool:
    """Set the prior of the components to its optimum, and move their posteriors along.

    The bound depends on the prior's eta by ``sum_k <eta, E_q[t(theta_k)]> - log Z(eta)``, which is
    largest where the mean of t under the prior is the mean over the components that have items.

    Returns
    -------
    Whether anything was learned: nothing is from a single component, nor by components that do not
    implement ``learned_prior``.
    """
    prior, components = model.components.prior, posteriors["components"]
    held = model.weights.posterior_counts(posteriors["weights"].natural_parameters) >= 1
    if int(held.sum()) < 2:
        return False
    learned = model.components.learned_prior(components.mean()[held].mean(0))
    if learned is None:
        return False
    change = learned - prior.natural_parameters
    prior.set_natural_parameters(learned)
    components.set_natural_parameters(components.natural_parameters + change)
    return True
