"""Which components are one cluster, given what the answers gain if two of them are."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators.sites import sites_of
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
    # NumPy, since rows as short as these take torch several times as long.
    between, eta, owners = (_numbers(part) for part in (gain, prior, start))
    np.fill_diagonal(between, 0)
    logits = eta.copy()
    for _ in range(sweeps):
        before = owners.copy()
        for one in range(len(between)):
            logits[one] = eta[one] + between[one] @ owners
            weight = np.exp(logits[one] - logits[one].max())
            owners[one] = weight / weight.sum()
        if (np.abs(owners - before) <= 1e-6 + 1e-5 * before).all():
            break
    return torch.from_numpy(logits).to(prior)


def _numbers(tensor: Tensor) -> np.ndarray:
    """A copy in float64."""
    return tensor.double().numpy(force=True).copy()


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
    gains = _numbers(gain)
    np.fill_diagonal(gains, 0)
    group = np.arange(len(gains))
    between = gains.copy()
    np.fill_diagonal(between, -np.inf)
    # The best partner of every group, so that a join looks at the rows that it changes alone.
    partner, most = between.argmax(1), between.max(1)
    while True:
        first = most.argmax()
        second = partner[first]
        if not most[first] > 0:
            break
        between[first] += between[second]
        between[:, first] = between[first]
        between[first, first] = -np.inf
        between[second] = between[:, second] = -np.inf
        group[group == second] = first
        nearer = between[:, first] > most
        most[nearer], partner[nearer] = between[nearer, first], first
        stale = ((partner == first) | (partner == second)) & ~nearer
        stale[[first, second]] = True
        partner[stale], most[stale] = between[stale].argmax(1), between[stale].max(1)
    of_group = gains @ np.eye(len(gains))[group]
    moved = True
    while moved:
        moved = False
        for one in range(len(gains)):
            best, here = of_group[one].argmax(), group[one]
            if of_group[one, best] > of_group[one, here] + 1e-9:
                of_group[:, here] -= gains[:, one]
                of_group[:, best] += gains[:, one]
                group[one], moved = best, True
    # A group that its first component has left keeps a name that is one of its own.
    _, named, place = np.unique(group, return_index=True, return_inverse=True)
    return torch.from_numpy(named[place]).to(gain.device)


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
    gain = sites_of(guide.model.annotators).merge_gain(guide.rate_statistics(), assignments, batch)
    posterior = guide.posteriors["owners"]
    prior = guide.model.ownership.prior.natural_parameters
    joined = nn.functional.one_hot(join(gain), len(gain)).to(gain)
    starts = posterior.mean(), joined
    found = [best_owners(gain, prior, start) for start in starts]
    best = max(found, key=lambda logits: owners_objective(logits, gain, prior))
    posterior.set_natural_parameters(best)
