"""One Gibbs sweep over the items, at a cost of the answered pairs and not of items times clusters.

    p(z_i = k | rest) propto exp( sum_{j asked with i, z_j = k} w_ij + log_join(n_k)
                                  + closure (n_k - asked_ik) )

w is what the answers about a pair say for "same", n_k the size of cluster k without i, asked_ik how
many of it i was compared with. An item joins only clusters in which it was compared with somebody,
or is alone: of others nobody knows anything but the prior.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.partitions.asked_pairs import AskedPairs
from pyro_crowdclust.partitions.choices import Choices
from pyro_crowdclust.partitions.protocols import PartitionPrior


def sweep(
    labels: Int[Tensor, " item"],
    pairs: AskedPairs,
    weights: Float[Tensor, " pair"],
    prior: PartitionPrior,
    generator: torch.Generator | None = None,
) -> tuple[Int[Tensor, " item"], Choices]:
    """Draw the cluster of every asked item given all others, in random order.

    Parameters
    ----------
    labels
        Cluster of every item, any numbers.
    pairs, weights
        Who was compared, and what the answers say, in nats.
    prior
        What sizes clusters have.
    generator
        Source of chance; default torch's own.

    Returns
    -------
    labels, choices
        New labels, numbered without gaps.
    """
    z: list[int] = torch.unique(labels, return_inverse=True)[1].tolist()
    sizes: dict[int, int] = {}
    for i in pairs.asked.tolist():
        sizes[z[i]] = sizes.get(z[i], 0) + 1
    closure, log_join = prior.closure, prior.log_join(pairs.num_items)
    neighbors, evidence = pairs.neighbors, pairs.by_item(weights - closure)
    chance = torch.rand(pairs.num_items, generator=generator, dtype=torch.float64).tolist()
    unused, choices = max(z) + 1, Choices()
    for i in torch.randperm(pairs.num_items, generator=generator).tolist():
        if not neighbors[i]:
            continue
        _leave(sizes, z[i])
        said: dict[int, float] = {}
        for j, weight in zip(neighbors[i], evidence[i], strict=True):
            said[z[j]] = said.get(z[j], 0.0) + weight
        scores = [w + log_join[sizes[k]] + closure * sizes[k] for k, w in said.items()]
        place = _draw([prior.log_alone(len(sizes)), *scores], chance[i])
        choices.sizes.append([sizes[k] for k in said])
        if place == 0:
            z[i], unused = unused, unused + 1
            choices.chosen.append(0)
        else:
            z[i] = [*said][place - 1]
            choices.chosen.append(sizes[z[i]])
        sizes[z[i]] = sizes.get(z[i], 0) + 1
    return torch.unique(torch.tensor(z), return_inverse=True)[1], choices


def _leave(sizes: dict[int, int], cluster: int) -> None:
    if sizes[cluster] == 1:
        del sizes[cluster]
    else:
        sizes[cluster] -= 1


def _draw(scores: list[float], chance: float) -> int:
    """A place, with log odds the scores."""
    largest = max(scores)
    odds = [math.exp(score - largest) for score in scores]
    left = chance * sum(odds)
    for place, one in enumerate(odds):
        left -= one
        if left <= 0:
            return place
    return odds.index(1.0)
