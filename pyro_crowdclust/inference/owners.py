"""Which components are one cluster, given what the answers gain if two of them are."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators.pair_messages import answer_gain
from pyro_crowdclust.minibatches.batch import Batch


def best_owners(
    gain: Float[Tensor, "component component"],
    prior: Float[Tensor, "component cluster"],
    start: Float[Tensor, "component cluster"],
    sweeps: int = 10,
) -> Float[Tensor, "component cluster"]:
    """log q(c), unnormalized, of a maximum of ``sum_{k<l} G_kl <c_k, c_l> + <c, eta0> + H(c)``.

    Coordinate ascent, ``log q(c_k) = eta0_k + sum_l G_kl q(c_l)``, component by component.

    Parameters
    ----------
    gain
        G: what the answers gain if two components are one cluster, symmetric; the diagonal is not
        read. See ``answer_gain``.
    prior
        eta0.
    start
        q(c) to begin with.
    sweeps
        How often each component has its turn, at most.

    Examples
    --------
    >>> gain = torch.tensor([[0.0, 9.0, -9.0], [9.0, 0.0, -9.0], [-9.0, -9.0, 0.0]])
    >>> best_owners(gain, torch.eye(3), torch.eye(3)).argmax(1)
    tensor([1, 1, 2])
    """
    gain = gain.clone().fill_diagonal_(0)
    owners, logits = start.clone(), prior.clone()
    for _ in range(sweeps):
        before = owners.clone()
        for one in range(len(gain)):
            logits[one] = prior[one] + gain[one] @ owners
            owners[one] = logits[one].softmax(-1)
        if torch.allclose(owners, before, atol=1e-6):
            break
    return logits


def owners_objective(
    logits: Float[Tensor, "component cluster"],
    gain: Float[Tensor, "component component"],
    prior: Float[Tensor, "component cluster"],
) -> float:
    """``sum_{k<l} G_kl <c_k, c_l> + <c, eta0> + H(c)`` at ``c = softmax(logits)``."""
    owners = logits.softmax(-1)
    between = (gain * (owners @ owners.mT)).triu(1).sum()
    return float(between + (owners * prior - torch.special.xlogy(owners, owners)).sum())


def join(gain: Float[Tensor, "component component"]) -> Int[Tensor, " component"]:
    """A partition with a large ``sum_{k<l} [c_k = c_l] G_kl``: correlation clustering.

    Groups are joined, the two that gain most first, while they gain; then each component moves
    to where it gains most, until none moves. Neither can lower the sum. Bansal, Blum and Chawla
    2004 show that the largest sum is hard to find.

    Parameters
    ----------
    gain
        G, symmetric; its diagonal is not read.

    Returns
    -------
    Tensor
        For every component the number of one of its group, the same for all of the group.

    Examples
    --------
    >>> join(torch.tensor([[0.0, 3.0, -1.0], [3.0, 0.0, -1.0], [-1.0, -1.0, 0.0]]))
    tensor([0, 0, 2])
    """
    gain = gain.double().clone().fill_diagonal_(0)
    group = torch.arange(len(gain))
    between = gain.clone().fill_diagonal_(-torch.inf)
    # The best partner of every group, so that a join looks at the rows that it changes alone.
    most, partner = between.max(1)
    while True:
        first = int(most.argmax())
        second = int(partner[first])
        if not most[first] > 0:
            break
        between[first] += between[second]
        between[:, first] = between[first]
        between[first, first] = -torch.inf
        between[second] = between[:, second] = -torch.inf
        group[group == second] = first
        nearer = between[:, first] > most
        most[nearer], partner[nearer] = between[nearer, first], first
        stale = ((partner == first) | (partner == second)) & ~nearer
        stale[[first, second]] = True
        most[stale], partner[stale] = between[stale].max(1)
    of_group = gain @ nn.functional.one_hot(group, len(gain)).double()
    moved = True
    while moved:
        moved = False
        for one in range(len(gain)):
            best = int(of_group[one].argmax())
            here = group[one]
            if of_group[one, best] > of_group[one, here] + 1e-9:
                of_group[:, here] -= gain[:, one]
                of_group[:, best] += gain[:, one]
                group[one], moved = best, True
    # A group that its first component has left keeps a name that is one of its own.
    _, place = group.unique(return_inverse=True)
    names = torch.full((int(place.max()) + 1,), len(gain)).scatter_reduce(
        0, place, torch.arange(len(gain)), "amin"
    )
    return names[place]


@torch.no_grad()
def move_owners(guide: Any, batch: Batch) -> None:
    """Bring q(c) to the best of two maxima of the bound, all else held fixed.

    One is that next to where q(c) is, the other next to the partition that ``join`` finds of the
    components, so that clusters can part again that were joined too early.

    Parameters
    ----------
    guide
        With a posterior ``owners``, ``infer`` and ``rate_statistics``.
    batch
        All answers.
    """
    assignments = guide.infer(batch).assignments.double()
    annotators = guide.model.annotators
    weight = annotators.log_likelihood_ratio(guide.rate_statistics(), batch.worker, batch.label)
    gain = answer_gain(assignments, batch.left, batch.right, weight)
    posterior = guide.posteriors["owners"]
    prior = guide.model.ownership.prior.natural_parameters
    joined = nn.functional.one_hot(join(gain.cpu()), len(gain)).to(gain)
    starts = posterior.mean(), joined
    found = [best_owners(gain, prior, start) for start in starts]
    best = max(found, key=lambda logits: owners_objective(logits, gain, prior))
    posterior.set_natural_parameters(best)
