"""Gibbs sweeps of several chains at once, which cost little more than one where clusters are few.

The odds are those of ``sweep``; every item is drawn in all chains together, by arrays of chains and
clusters. A chain that goes through the items of a small set alone spends most of its time on
calling Python.
"""

from __future__ import annotations

from functools import cache
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.partitions.asked_pairs import AskedPairs
from pyro_crowdclust.partitions.numbering import without_gaps
from pyro_crowdclust.partitions.protocols import PartitionPrior

# Places beside those of the clusters that there are, and more of them where these do not do.
_SPARE = 3


class Said(Protocol):
    """What is said of items, to chains that are swept at once.

    Clusters of all chains are numbered through, and those of one place stand side by side.
    """

    def begin(self, z: Int[np.ndarray, "item chain"], size: int) -> None:
        """Where all items are, which changes in place, and how many numbers there are."""

    def take(self, item: int, size: int) -> Float[np.ndarray, " number"]:
        """Take an item out, and say how well it fits every cluster of so many, in nats."""

    def put(self, item: int) -> None:
        """The item is in its new clusters."""


def places_of(
    labels: Int[Tensor, "chain item"], pairs: AskedPairs
) -> Int[np.ndarray, "item chain"]:
    """The clusters of every connected part, numbered from 0 on in every chain."""
    part, chain = pairs.part.numpy()[:, None], np.arange(len(labels))
    return without_gaps(part * len(chain) + chain, labels.numpy().T)


def sweep_at_once(
    places: Int[np.ndarray, "item chain"], pairs: AskedPairs, said: Said, prior: PartitionPrior
) -> Int[Tensor, "chain item"]:
    """Draw the cluster of every asked item given all others, in every chain.

    Parameters
    ----------
    places
        Of all items among the clusters of their part.
    pairs
        What connects the items.
    said
        What is said of them.
    prior
        What sizes clusters have; one under which items join strangers.

    Returns
    -------
    New labels, numbered without gaps.
    """
    rng = np.random.default_rng(int(torch.randint(2**31, ())))
    chain = np.arange(places.shape[1])
    most = (places.max() + 1 + _SPARE) * len(chain)
    part, asked = pairs.part.numpy(), pairs.asked.numpy()
    # Places of one number stand side by side for all chains.
    z = places * len(chain) + chain
    said.begin(z, most)
    sizes = np.zeros((part.max() + 1, most), dtype=int)
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
        sums = said.take(i, counts.size)
        # Any empty place stands for being alone.
        alone = [log_alone(number, len(asked)) for number in num_clusters.tolist()]
        score = np.where(is_empty, alone - np.log(num_empty), log_join[counts])
        score += sums.reshape(counts.shape)
        # A Gumbel race: the largest is a draw with log odds the scores.
        score -= np.log(rng.standard_exponential(counts.shape))
        z[i] = score.argmax(0) * len(chain) + chain
        num_clusters += sizes[part[i], z[i]] == 0
        sizes[part[i], z[i]] += 1
        said.put(i)
    group = np.broadcast_to(chain, z.shape)
    found = without_gaps(group, part[:, None] * sizes.shape[1] + z // len(chain))
    return torch.from_numpy(np.ascontiguousarray(found.T))
