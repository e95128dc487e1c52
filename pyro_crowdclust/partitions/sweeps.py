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

import math
from collections import defaultdict
from collections.abc import Collection
from functools import cache

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
    z: list[int] = pairs.split(labels).tolist()
    closure, log_join = prior.closure, prior.log_join(pairs.num_items)
    neighbors, part = pairs.neighbors, pairs.part
    evidence = pairs.by_item(weights + prior.asked - closure)
    asked = pairs.asked.tolist()
    join = [0.0, *map(math.exp, log_join[1:])]
    parts: dict[int, _Clusters] = defaultdict(lambda: _Clusters(log_join, join))
    of_item = {i: parts[p] for i, p in zip(asked, part[pairs.asked].tolist(), strict=True)}
    num_clusters = sum(of_item[i].change(z[i], 1) for i in asked)
    chance = torch.rand(2, pairs.num_items, generator=generator, dtype=torch.float64).tolist()
    unused, choices, log_alone = max(z) + 1, Choices(), cache(prior.log_alone)
    for i in torch.randperm(pairs.num_items, generator=generator).tolist():
        if not neighbors[i]:
            continue
        clusters = of_item[i]
        num_clusters += clusters.change(z[i], -1)
        said: dict[int, float] = {}
        for j, weight in zip(neighbors[i], evidence[i], strict=True):
            said[z[j]] = said.get(z[j], 0.0) + weight
        sizes = [clusters.sizes[k] for k in said]
        scores = [
            score + log_join[size] + closure * size
            for score, size in zip(said.values(), sizes, strict=True)
        ]
        strangers = clusters.log_others(said) if prior.joins_strangers else -math.inf
        alone = log_alone(num_clusters, len(asked))
        place = _draw([alone, strangers, *scores], chance[0][i])
        if place == 0:
            z[i], unused = unused, unused + 1
        elif place == 1:
            z[i] = clusters.draw_other(said, chance[1][i])
        else:
            z[i] = [*said][place - 2]
        choices.sizes.append(sizes)
        choices.chosen.append(clusters.sizes.get(z[i], 0))
        num_clusters += clusters.change(z[i], 1)
    return torch.unique(torch.tensor(z), return_inverse=True)[1], choices


class _Clusters:
    """Clusters of a connected part: their sizes, and the sum of ``exp log_join(n)`` over them.

    Parameters
    ----------
    log_join, weights
        Log weight of joining a cluster of 0, 1, ... others, and the weight, 0 of none.
    """

    def __init__(self, log_join: list[float], weights: list[float]) -> None:
        self.sizes: dict[int, int] = {}
        self._log_join, self._weights, self._total = log_join, weights, 0.0

    def change(self, cluster: int, by: int) -> int:
        """One item more or less; returns how many clusters more there are."""
        before = self.sizes.pop(cluster, 0)
        after = before + by
        if after:
            self.sizes[cluster] = after
        self._total += self._weights[after] - self._weights[before]
        return (after > 0) - (before > 0)

    def log_others(self, known: Collection[int]) -> float:
        """Log of the sum over all clusters but these."""
        if len(known) == len(self.sizes):
            return -math.inf
        others = self._total - sum([self._weights[self.sizes[cluster]] for cluster in known])
        return math.log(max(others, 1e-300))

    def draw_other(self, known: Collection[int], chance: float) -> int:
        """One of the clusters but these, by their weights."""
        others = [cluster for cluster in self.sizes if cluster not in known]
        return others[_draw([self._log_join[self.sizes[k]] for k in others], chance)]


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
