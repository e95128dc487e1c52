"""The prior of a mixture's components at its optimum for their posteriors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

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
    held = _held(model, posteriors)
    if int(held.sum()) < 2:
        return False
    learned = model.components.learned_prior(components.mean()[held].mean(0))
    if learned is None:
        return False
    change = learned - prior.natural_parameters
    prior.set_natural_parameters(learned)
    components.set_natural_parameters(components.natural_parameters + change)
    return True


@torch.no_grad()
def gain_of_learned_prior(model: Any, posteriors: Mapping[str, ConjugatePosterior]) -> float:
    """By how much the bound rises, at these posteriors, if the prior becomes the best one, in nats.

    ``sum_k <eta* - eta, E_q[t(theta_k)]> - log Z(eta*) + log Z(eta)`` over the components that have
    items, with eta* as in ``learn_prior``. It is large where the prior expects components of
    another width than they have. Components that do not implement ``learned_prior`` gain 0.
    """
    prior = model.components.prior
    means = posteriors["components"].mean()[_held(model, posteriors)]
    learned = model.components.learned_prior(means.mean(0)) if len(means) else None
    if learned is None:
        return 0.0
    family, given = prior.family, prior.natural_parameters[0]
    rise = family.inner_product(learned - given, means)
    return float((rise - family.log_normalizer(learned) + family.log_normalizer(given)).sum())


def _held(model: Any, posteriors: Mapping[str, ConjugatePosterior]) -> Bool[Tensor, " cluster"]:
    """Which components have items: those without equal the prior, whatever it is."""
    return model.weights.posterior_counts(posteriors["weights"].natural_parameters) >= 1
