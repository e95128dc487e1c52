"""Gibbs sweeps of several chains at once, which cost little more than one where clusters are few.

The odds are those of ``sweep``; every item is drawn in all chains together, by arrays of chains and
clusters. A chain that goes through the items of a small set alone spends most of its time on
calling Python.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.partitions.asked_pairs import AskedPairs
from pyro_crowdclust.partitions.choices import Choices
from pyro_crowdclust.partitions.protocols import PartitionPrior
from pyro_crowdclust.partitions.sweeps import sweep

# With larger arrays of parts, clusters and chains, chains are swept one by one.
_LARGEST = 20_000
# Places beside those of the clusters that there are, and more of them where these do not do.
_SPARE = 3


def sweep_chains(
    labels: Int[Tensor, "chain item"],
    pairs: AskedPairs,
    weights: Float[Tensor, "chain pair"],
    prior: PartitionPrior,
) -> tuple[Int[Tensor, "chain item"], Choices]:
    """Draw the cluster of every asked item given all others, in every chain.

    Parameters
    ----------
    labels
        Cluster of every item, numbered without gaps in each chain.
    pairs, weights
        Who was compared, and what the answers say, in nats.
    prior
        What sizes clusters have.

    Returns
    -------
    labels, choices
        New labels, numbered without gaps; what items could choose in the last chain, or nothing
        where priors do not learn from it.
    """
    size = len(labels) * (int(pairs.part.max()) + 1) * (int(labels.max()) + 1 + _SPARE)
    if len(labels) > 1 and prior.joins_strangers and not prior.closure and size <= _LARGEST:
        return _swept_at_once(labels, pairs, weights, prior), Choices()
    found = [sweep(one, pairs, of_one, prior) for one, of_one in zip(labels, weights, strict=True)]
    return torch.stack([drawn for drawn, _ in found]), found[-1][1]


def _swept_at_once(
    labels: Int[Tensor, "chain item"],
    pairs: AskedPairs,
    weights: Float[Tensor, "chain pair"],
    prior: PartitionPrior,
) -> Int[Tensor, "chain item"]:
    rng = np.random.default_rng(int(torch.randint(2**31, ())))
    chain = np.arange(len(labels))
    first, others, pair = (each.numpy() for each in pairs.edges)
    said = np.ascontiguousarray(weights.numpy()[:, pair].T)
    part, asked = pairs.part.numpy(), pairs.asked.numpy()
    # Places of clusters; those of one number stand side by side for all chains.
    z = labels.numpy().T * len(chain) + chain
    sizes = np.zeros((part.max() + 1, (int(labels.max()) + 1 + _SPARE) * len(chain)), dtype=int)
    np.add.at(sizes, (part[asked, None], z[asked]), 1)
    num_clusters = (sizes > 0).reshape(-1, len(chain)).sum(0)
    log_join, log_alone = np.array(prior.log_join(len(part))), cache(prior.log_alone)
    for i in rng.permutation(asked):
        sizes[part[i], z[i]] -= 1
        counts = sizes[part[i]].reshape(-1, len(chain))
        is_empty = counts == 0
        num_empty = is_empty.sum(0)
        num_clusters -= sizes[part[i], z[i]] == 0
        if not num_empty.all():
            sizes = np.pad(sizes, ((0, 0), (0, _SPARE * len(chain))))
            counts = sizes[part[i]].reshape(-1, len(chain))
            is_empty, num_empty = counts == 0, num_empty + _SPARE
        edges = slice(first[i], first[i + 1])
        sums = np.bincount(z[others[edges]].ravel(), said[edges].ravel(), counts.size)
        # Any empty place stands for being alone.
        alone = [log_alone(number, len(asked)) for number in num_clusters.tolist()]
        score = np.where(is_empty, alone - np.log(num_empty), log_join[counts])
        score += sums.reshape(counts.shape)
        # A Gumbel race: the largest is a draw with log odds the scores.
        score -= np.log(rng.standard_exponential(counts.shape))
        z[i] = score.argmax(0) * len(chain) + chain
        num_clusters += sizes[part[i], z[i]] == 0
        sizes[part[i], z[i]] += 1
    # Clusters of other parts are others.
    codes = z // len(chain) + part[:, None] * (sizes.shape[1] // len(chain))
    is_used = np.zeros((sizes.size // len(chain), len(chain)), dtype=int)
    is_used[codes, chain] = 1
    return torch.from_numpy(np.ascontiguousarray((is_used.cumsum(0) - 1)[codes, chain].T))
