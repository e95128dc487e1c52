"""One Gibbs sweep over the items, at a cost of the answered pairs and not of items times clusters.

    p(z_i = k | rest) propto exp( sum_{j asked with i, z_j = k} w_ij + log_join(n_k)
                                  + asked a_ik + closure (n_k - a_ik) )

w is what the answers about a pair say for "same", n_k the size of cluster k without i, a_ik how
many of it i was compared with. Clusters in which an item was compared with nobody have the weight
of their sizes alone, so that their sum is known without going through them, ``sum_k exp
log_join(n_k)`` less that of the others; which of them it is is drawn where one is chosen. Items
that no chain of pairs connects stay apart, since nothing could ever tell, and a single draw would
have to say. Under priors whose ``joins_strangers`` is false an item joins only clusters in which it
was compared with somebody.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.partitions.asked_pairs import AskedPairs
from pyro_crowdclust.partitions.choices import Choices
from pyro_crowdclust.partitions.numbering import without_gaps
from pyro_crowdclust.partitions.protocols import PartitionPrior

# Of so many clusters fewer, and more, the weight of being alone is known to a sweep beforehand.
_WINDOW = 16


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
    of_chains, choices = sweep_chains(labels[None], pairs, weights[None], prior, generator)
    return of_chains[0], choices


def sweep_chains(
    labels: Int[Tensor, "chain item"],
    pairs: AskedPairs,
    weights: Float[Tensor, "chain pair"],
    prior: PartitionPrior,
    generator: torch.Generator | None = None,
) -> tuple[Int[Tensor, "chain item"], Choices]:
    """The same in every chain.

    Parameters
    ----------
    labels, pairs, weights, prior, generator
        As of ``sweep``; of every chain its own labels and weights.

    Returns
    -------
    labels, choices
        New labels, numbered without gaps; what items could choose in the last chain.
    """
    from pyro_crowdclust.partitions.gibbs import clusters_of, visit_items

    shape, asked, part = labels.shape, pairs.asked.numpy(), pairs.part.numpy()
    first, others, pair = (of_edge.numpy() for of_edge in pairs.edges)
    evidence = (weights + prior.asked - prior.closure).numpy()[:, pair]
    log_join = np.array(prior.log_join(pairs.num_items))
    join = np.exp(log_join)
    join[0] = 0.0
    chance = torch.rand(shape[0], 2, shape[1], generator=generator, dtype=torch.float64).numpy()
    order = torch.rand(shape[0], len(asked), generator=generator).argsort(1).numpy()
    # Clusters of one part each.
    chain = np.arange(shape[0])[:, None]
    z = without_gaps(chain, part * (int(labels.max()) + 1) + labels.numpy())
    visits = np.zeros((2, len(asked)), dtype=np.int64)
    offered = np.zeros(len(others), dtype=np.int64)
    for one in range(shape[0]):
        clusters, place = clusters_of(z[one], asked, part, join), 0
        while place < len(asked):
            num_clusters = int(clusters[-1][0])
            window = range(max(num_clusters - _WINDOW, 0), num_clusters + _WINDOW)
            place = visit_items(
                asked[order[one]],
                place,
                z[one],
                clusters,
                (first, others, evidence[one], part),
                chance[one],
                (log_join, join, prior.closure, prior.joins_strangers),
                np.array([prior.log_alone(beside, len(asked)) for beside in window]),
                window.start,
                (*visits, offered),
            )
    choices = Choices(offered[: visits[0].sum()], *visits)
    return torch.from_numpy(without_gaps(chain, z)), choices
