"""Likelihood and replications of placements on sorted pages, at draws of the workers' rates.

As for answers about pairs (``answer_likelihood``), with R_s the probability under q that placement
a lies at its item's home if its page is in state s, and G the number of groups of the page,

    log p(g_a | Theta, all other data) = -log E_q(z, s, h)[1 / p(g_a | z, s, h, Theta)]
        = -log (sum_s q(s) (R_s / p(at home | s) + (1 - R_s) / p(another group | s))
                + q(careless) (G + 1)).
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.annotators.sorted_pages import SortedPages
from pyro_crowdclust.diagnostics.draws import GlobalDraws
from pyro_crowdclust.diagnostics.predictive import assignment_draws
from pyro_crowdclust.distributions.pages import GroupPlacement, placement_scores
from pyro_crowdclust.minibatches.pages import BatchPages
from pyro_crowdclust.protocols import FittedModel, SupportsRateStatistics, part_of


def placement_draws(
    result: FittedModel, draws: GlobalDraws, rows: Int[Tensor, " placement"]
) -> tuple[Float[Tensor, "draw placement"], Int[Tensor, "draw placement"]] | None:
    """``log p(g | Theta, all other data)`` of placements, and replications of their groups.

    Parameters
    ----------
    result
        The result of ``fit``.
    draws
        Draws of Theta.
    rows
        Rows of the placements.

    Returns
    -------
    None if the annotators are not ``SortedPages``. In a replication, z, states and homes are drawn
    from q, once for all placements; the number G stands for a group that is empty.
    """
    annotators = part_of(result.model, "annotators", SortedPages)
    if annotators is None or not isinstance(result.guide, SupportsRateStatistics):
        return None
    data, given = result.data, result.data.needed_placements
    pages = BatchPages.of(given, torch.arange(given.num_pages), torch.arange(data.num_items))
    rates = {name: one.cpu() for name, one in result.guide.rate_statistics().items()}
    q = torch.tensor(result.probabilities)
    found = annotators.posterior(rates, q, pages)
    item, page, group = given.item[rows], given.page[rows], given.group[rows]
    # Of clusters without items on the page, too: those where this item would be.
    at_home = (q[item].unsqueeze(1) * found.offered[page, ..., group + 1]).sum(-1)
    worker, num_groups = given.worker[page], given.num_groups[page]
    z = assignment_draws(q, draws.num_draws)
    states = assignment_draws(found.states, draws.num_draws)
    log_likelihoods, replicated = [], []
    for draw in range(draws.num_draws):
        accuracy = draws.at(draw)["accuracy"].cpu()[worker]
        log_likelihoods.append(
            left_out_placements(at_home, found.states[page], accuracy, num_groups)
        )
        # A careless page has no homes; those of any other state stand in, and are not used.
        state = states[draw].clamp(max=found.offered.shape[1] - 1)
        homes = found.offered[torch.arange(len(state)), state]
        drawn = torch.distributions.Categorical(homes, validate_args=False).sample()
        home = torch.nn.functional.one_hot(drawn[page, z[draw][item]], homes.shape[-1])
        attentive = torch.nn.functional.one_hot(states[draw], found.states.shape[1])[page]
        attentive = attentive[:, : at_home.shape[1]]
        replicated.append(_placed(at_home, accuracy, attentive, num_groups, home))
    return torch.stack(log_likelihoods), torch.stack(replicated)


def left_out_placements(
    at_home: Float[Tensor, "placement homed"],
    states: Float[Tensor, "placement state"],
    accuracy: Float[Tensor, "placement 2"],
    num_groups: Int[Tensor, " placement"],
) -> Float[Tensor, " placement"]:
    """The formula above, for placements with these R, q(s), (log a, log(1 - a)) and G."""
    home, other = placement_scores(accuracy, num_groups)
    attentive = states[:, : home.shape[1]]
    inverse = attentive * (at_home * (-home).exp() + (1 - at_home) * (-other).exp())
    return -(inverse.sum(1) + states[:, -1] * (num_groups + 1)).log()


def _placed(
    at_home: Float[Tensor, "placement homed"],
    accuracy: Float[Tensor, "placement 2"],
    attentive: Int[Tensor, "placement homed"],
    num_groups: Int[Tensor, " placement"],
    home: Int[Tensor, "placement group"],
) -> Int[Tensor, " placement"]:
    """Groups drawn for placements with these states and homes."""
    return GroupPlacement(at_home, accuracy, attentive, num_groups, lambda: home).sample()
