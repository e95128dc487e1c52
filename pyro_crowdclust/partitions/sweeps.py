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

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.partitions.asked_pairs import AskedPairs
from pyro_crowdclust.partitions.choices import Choices
from pyro_crowdclust.partitions.numbering import without_gaps
from pyro_crowdclust.partitions.protocols import PartitionPrior

if TYPE_CHECKING:
    from pyro_crowdclust.partitions.gibbs import Chain, Weights

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
    from pyro_crowdclust.partitions.gibbs import Comparisons, Offers, visit_items

    first, others, pair = (of_edge.numpy() for of_edge in pairs.edges)
    evidence = (weights + prior.asked - prior.closure).numpy()[:, pair]
    visits = np.zeros((2, len(pairs.asked)), dtype=np.int64)
    offered = np.zeros((2, len(others)), dtype=np.int64)
    offers = Offers(*visits, *offered)

    def visit(number: int, begin: int, chain: Chain, weights: Weights) -> int:
        compared = Comparisons(first, others, evidence[number])
        return visit_items(compared, offers, begin, chain, weights)

    drawn = visited(labels, pairs, prior, visit, generator)
    return drawn, Choices(*offered[:, : visits[0].sum()], *visits)


def visited(
    labels: Int[Tensor, "chain item"],
    connections: AskedPairs,
    prior: PartitionPrior,
    visit: Callable[..., int],
    generator: torch.Generator | None = None,
) -> Int[Tensor, "chain item"]:
    """Draw the cluster of every connected item given all others, in every chain.

    Parameters
    ----------
    labels
        Cluster of every item, any numbers.
    connections
        Who has anything to do with whom.
    prior
        What sizes clusters have.
    visit
        Goes through the items of a chain, by the number of the chain, the place to begin at, the
        chain and the weights of the prior: ``visit_items``, or another, with evidence about them.
    generator
        Source of chance; default torch's own.

    Returns
    -------
    New labels, numbered without gaps.
    """
    from pyro_crowdclust.partitions.gibbs import Chain, Weights, clusters_of

    (num_chains, num_items), asked = labels.shape, connections.asked.numpy()
    part = connections.part.numpy()
    log_join = np.array(prior.log_join(num_items))
    join = np.exp(log_join)
    join[0] = 0.0
    of_sizes = log_join, join, prior.closure, prior.joins_strangers
    chance = torch.rand(num_chains, 2, num_items, generator=generator, dtype=torch.float64).numpy()
    order = torch.rand(num_chains, len(asked), generator=generator).argsort(1).numpy()
    # Clusters of one part each.
    number = np.arange(num_chains)[:, None]
    z = without_gaps(number, part * (int(labels.max()) + 1) + labels.numpy())
    for each in range(num_chains):
        clusters, place = clusters_of(z[each], asked, part, join), 0
        chain = Chain(asked[order[each]], z[each], part, clusters, chance[each])
        while place < len(asked):
            beside = int(clusters.num_clusters[0])
            window = range(max(beside - _WINDOW, 0), beside + _WINDOW)
            log_alone = np.array([prior.log_alone(other, len(asked)) for other in window])
            place = visit(each, place, chain, Weights(*of_sizes, log_alone, window.start))
    return torch.from_numpy(without_gaps(number, z))
