"""One Gibbs sweep over the items, whose cost is that of the pairs, not of items times clusters.

    p(z_i = k | rest) propto exp( sum_{j asked with i, z_j = k} w_ij + log_join(n_k)
                                  + asked a_ik + closure (n_k - a_ik) )

w is the evidence of the answers about a pair for "same", n_k the size of cluster k without i, and
a_ik the number of its items that i was compared with. Clusters without any item that i was compared
with have a weight that depends on their sizes only, so that the sum of these weights is known
without a loop: ``sum_k exp log_join(n_k)`` less that of the other clusters. If the draw is one of
them, a second draw chooses which. Items that no chain of pairs connects stay apart, since there can
be no evidence that they are together: they are in different parts, and ``log_alone`` counts the
clusters and items of the item's own part only. Under priors whose ``joins_strangers`` is false, an
item joins only clusters with an item that it was compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.partitions.asked_pairs import AskedPairs
from pyro_crowdclust.partitions.choices import Choices
from pyro_crowdclust.partitions.numbering import renumbered
from pyro_crowdclust.partitions.protocols import PartitionPrior

if TYPE_CHECKING:
    from pyro_crowdclust.partitions.gibbs import Chain, PartitionWeights

# The weight of being alone is computed in advance for at least this many clusters fewer, and more.
_WINDOW = 16


def sweep(
    labels: Int[Tensor, " item"],
    pairs: AskedPairs,
    weights: Float[Tensor, " pair"],
    prior: PartitionPrior,
) -> tuple[Int[Tensor, " item"], Choices]:
    """Draw the cluster of every asked item given all other items, in random order.

    Parameters
    ----------
    labels
        Cluster of every item, any numbers.
    pairs, weights
        The pairs that were compared, and the evidence of their answers for "same", in nats.
    prior
        Prior of the partition.

    Returns
    -------
    labels, choices
        New labels, numbered without gaps, and what the items could choose.
    """
    of_chains, choices = sweep_chains(labels[None], pairs, weights[None], prior)
    return of_chains[0], choices


def sweep_chains(
    labels: Int[Tensor, "chain item"],
    pairs: AskedPairs,
    weights: Float[Tensor, "chain pair"],
    prior: PartitionPrior,
) -> tuple[Int[Tensor, "chain item"], Choices]:
    """A sweep in every chain.

    Parameters
    ----------
    labels, pairs, weights, prior
        As in ``sweep``, with labels and weights for every chain.

    Returns
    -------
    labels, choices
        New labels, numbered without gaps; what items could choose in the last chain.
    """
    from pyro_crowdclust.partitions.gibbs import Comparisons, Offers, visit_items

    first, others, pair = (of_edge.numpy() for of_edge in pairs.edges)
    evidence = (weights + prior.asked - prior.closure).numpy()[:, pair]
    visits = np.zeros((2, len(pairs.items_in_pairs)), dtype=np.int64)
    offered = np.zeros((2, len(others)), dtype=np.int64)
    offers = Offers(*visits, *offered)

    def visit(number: int, begin: int, chain: Chain, weights: PartitionWeights) -> int:
        compared = Comparisons(first, others, evidence[number])
        return visit_items(compared, offers, begin, chain, weights)

    drawn = visited(labels, pairs, prior, visit)
    return drawn, Choices(*offered[:, : visits[0].sum()], *visits)


def visited(
    labels: Int[Tensor, "chain item"],
    connections: AskedPairs,
    prior: PartitionPrior,
    visit: Callable[..., int],
) -> Int[Tensor, "chain item"]:
    """Draw the cluster of every connected item given all other items, in every chain.

    Parameters
    ----------
    labels
        Cluster of every item, any numbers.
    connections
        Pairs of items that can have evidence about each other.
    prior
        Prior of the partition.
    visit
        A function that goes through the items of a chain, given the number of the chain, the place
        to begin at, the chain and the weights of the prior: ``visit_items`` or another one, with
        the evidence bound to it.

    Returns
    -------
    New labels, numbered without gaps.
    """
    from pyro_crowdclust.partitions.gibbs import Chain, PartitionWeights, clusters_of

    (num_chains, num_items), asked = labels.shape, connections.items_in_pairs.numpy()
    part = connections.part.numpy()
    log_join = np.array(prior.log_join(num_items))
    join = np.exp(log_join)
    join[0] = 0.0
    of_sizes = log_join, join, prior.closure, prior.joins_strangers
    chance = torch.rand(num_chains, 2, num_items, dtype=torch.float64).numpy()
    order = torch.rand(num_chains, len(asked)).argsort(1).numpy()
    # Split clusters, so that each lies in one connected part.
    number = np.arange(num_chains)[:, None]
    z = renumbered(number, part * (int(labels.max()) + 1) + labels.numpy())

    items_of = np.bincount(part[asked], minlength=part.max() + 1)

    def weights_beside(number_of: Int[np.ndarray, " part"]) -> PartitionWeights:
        # Windows begin at few places, so that most parts of one size share a row.
        fewest = np.maximum(number_of // _WINDOW - 1, 0) * _WINDOW
        codes, row_of = np.unique(fewest * (num_items + 1) + items_of, return_inverse=True)
        firsts = (divmod(code, num_items + 1) for code in codes.tolist())
        rows = [prior.log_alone(range(k, k + 3 * _WINDOW), items) for k, items in firsts]
        return PartitionWeights(*of_sizes, np.array(rows), row_of, fewest)

    for each in range(num_chains):
        clusters, place = clusters_of(z[each], asked, part, join), 0
        chain = Chain(asked[order[each]], z[each], part, clusters, chance[each])
        while place < len(asked):
            place = visit(each, place, chain, weights_beside(clusters.number_of))
    return torch.from_numpy(renumbered(number, z))
