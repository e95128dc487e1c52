"""Likelihood and replications of known labels under a class table, at draws of the global sites.

Given theta, and without answers about pairs, the items are independent, so that this is exact:

    log p(y_i | o_i, Theta) = log sum_k p(k, o_i | Theta) rho_{k y_i} - log sum_k p(k, o_i | Theta)
"""

from __future__ import annotations

import dataclasses

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.diagnostics.draws import (
    GlobalDraws,
    batch_of_items,
    local_plates,
    run,
    sites_with_density,
)
from pyro_crowdclust.diagnostics.item_likelihood import (
    continuous_sites,
    discrete_sites,
    enumerated_log_density,
    enumeration_dim,
)
from pyro_crowdclust.diagnostics.predictive import assignment_draws
from pyro_crowdclust.protocols import FittedModel, part_of
from pyro_crowdclust.supervision.class_table import ClassTable


def known_label_draws(
    result: FittedModel, draws: GlobalDraws, items: Int[Tensor, " item"]
) -> tuple[Float[Tensor, "draw item"], Int[Tensor, "draw item"]] | None:
    """``log p(y_i | o_i, Theta)`` of known labels, and replications: ``z_i ~ q(z_i)``, then y_i.

    Parameters
    ----------
    result
        The result of ``fit``.
    draws
        Draws of Theta.
    items
        Positions of items with known labels.

    Returns
    -------
    None if the model has no class table, if items have continuous latents, as behind a network, or
    if they have not exactly one discrete site.
    """
    if part_of(result.model, "supervision", ClassTable) is None:
        return None
    local, without = local_plates(result), batch_of_items(result, items)
    known = result.data.needed_known[items].to(without.items.device)
    given = dataclasses.replace(without, known=known)
    discrete = discrete_sites(result, given, local)
    if len(discrete) != 1 or continuous_sites(run(result.guide, without, {}), discrete, local):
        return None
    ((z, support),) = discrete.items()
    clusters = assignment_draws(result.component_probabilities[items], draws.num_draws)
    first_dim = enumeration_dim(result, given)
    log_likelihoods, replicated = [], []
    for draw in range(draws.num_draws):
        theta = draws.at(draw)
        joint, alone = (
            enumerated_log_density(result, batch, theta, discrete, local, first_dim)
            for batch in (given, without)
        )
        log_likelihoods.append((joint - alone).cpu())
        values = theta | {z: support[clusters[draw].to(support.device)]}
        site = sites_with_density(run(result.model, given, values))["known"]
        replicated.append(site["fn"].sample().cpu())
    return torch.stack(log_likelihoods), torch.stack(replicated)
