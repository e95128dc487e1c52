"""q(c) of components of which hardly any item with answers is: q(z) is optimized for every owner.

With observed features, and z of the items with answers, the bound given c is

    L(q, c) = sum_i <q_i, a_i> + H(q_i) + 1/2 sum_ij w_ij q_i^T B(c) q_j,   B(c)_kl = [c_k = c_l],

where ``a_i = log p(z_i, x_i)`` and w is that of ``PairCoupling``. The mean field update of q(c_k)
is linear in L at the present q(z). Where many items may be of component k, but none is surely, this
evidence counts answers that would be of other components under another c_k, and it was this q(c_k)
that made them of k: the update confirms itself. In the larger family ``q(c_k) q(z | c_k)``, a
structured mean field, q(z) follows c_k, and the optimum is

    log q(c_k = l) = eta0_kl + max_q L(q, c_k = l, c of all others at their means) + const.

L at a maximum bounds the log-evidence of ``c_k = l`` from below.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust.annotators.sites import sites_in
from pyro_crowdclust.inference.messages import LocalSolver
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import AnswerCoupling

# Enough rounds of messages for q(z) to reach its new maximum.
_SOLVER = LocalSolver(exchanges=25)
# An item is surely of a component that has this probability. A component is one of few with less
# than one such item: features hold q(z) of sure items, so that both kinds of evidence hardly differ
# and the maximum near q(z) is no better than the linear evidence.
_SURE = 0.5
# log q(c_k) of names that a bound on the number of clusters excludes.
_IMPOSSIBLE = -1000.0
# About five seconds.
_MAX_WORK = 10**8


def has_few(assignments: Float[Tensor, "item component"]) -> Bool[Tensor, " component"]:
    """``sum_i q_ik [q_ik > 1/2] < 1``: of which components hardly any of these items is.

    Examples
    --------
    >>> has_few(torch.tensor([[0.9, 0.1, 0.0], [0.6, 0.4, 0.0]]))
    tensor([False,  True,  True])
    """
    return (assignments * (assignments > _SURE)).sum(0) < 1


@torch.no_grad()
def weigh_owners_of_few(guide: Any, alone: Batch, answered: Batch) -> None:
    """Set q(c_k) of every component with few sure items, given all others, with q(z) that follows.

    All others are unchanged, as are components and workers. Nothing changes where it would take
    long: with more than 10^8 solutions times answers times components.

    Parameters
    ----------
    guide
        The guide of a mixture with observed features and a posterior ``owners``.
    alone, answered
        The items with answers about pairs, without and with these, in double precision.
    """
    ownership, posterior = guide.model.ownership, guide.posteriors["owners"]
    log_alone = guide.infer(alone).logits.double()
    start = guide.infer(answered).logits.double().log_softmax(1)
    owners = posterior.mean().double()
    is_possible = torch.ones_like(owners[0], dtype=torch.bool)
    if ownership.max_clusters is not None:
        is_possible = owners.sum(0) > 0
    found, rates = posterior.natural_parameters.clone(), guide.rate_statistics()
    few = has_few(start.exp()).nonzero().flatten().tolist()
    if len(few) * int(is_possible.sum()) * answered.num_pairs * len(owners) > _MAX_WORK:
        return
    for one in few:
        prior = ownership.prior.natural_parameters[one]
        row = torch.full_like(prior, _IMPOSSIBLE)
        for name in is_possible.nonzero().flatten().tolist():
            given = owners.clone()
            given[one] = torch.eye(len(prior)).to(given)[name]
            sites = sites_in(guide.model.annotators, answered, given)
            assert sites is not None  # as there are answers
            coupling = sites.coupling(rates, answered, torch.float64)
            row[name] = prior[name] + _best_bound(log_alone, start, coupling)
        found[one] = row - row[is_possible].max() * is_possible
    posterior.set_natural_parameters(found)


def _best_bound(
    log_alone: Float[Tensor, "item component"],
    start: Float[Tensor, "item component"],
    coupling: AnswerCoupling,
) -> Float[Tensor, ""]:
    """``max_q L`` near log q(z) at the start."""
    _, q = _SOLVER.exchange(log_alone, start, start.exp(), coupling)
    return (q * log_alone - torch.special.xlogy(q, q)).sum() + coupling.potential(q)
