"""A partition in which nearest neighbours are in the same cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.minibatches.devices import on_device
from pyro_crowdclust.networks.evaluation import evaluating
from pyro_crowdclust.networks.views import View
from pyro_crowdclust.partitions.joining import join_best
from pyro_crowdclust.starts.descent import random_views

# Logarithms of smaller probabilities depend on the numerical precision, not on the items.
_MIN_PROBABILITY = 1e-12
# Number of items per forward pass of the classifier after training.
_ROWS = 4096
# b, above 1: surplus clusters are joined afterwards, but clusters are never split.
_BALANCE = 3.0
# Principal components of the features in which distances are computed.
_COORDINATES = 50


def nearest_neighbors(
    points: Float[Tensor, "item dim"], num_neighbors: int
) -> Int[Tensor, "pair 2"]:
    """Pairs of every item and each of its ``num_neighbors`` nearest items.

    Examples
    --------
    >>> import torch
    >>> nearest_neighbors(torch.tensor([[0.0], [1.0], [5.0]]), 1)
    tensor([[0, 1],
            [1, 0],
            [2, 1]])
    """
    from sklearn.neighbors import NearestNeighbors  # late: loading it takes a while

    num_neighbors = min(num_neighbors, len(points) - 1)
    search = NearestNeighbors(n_neighbors=num_neighbors, algorithm="brute").fit(points.numpy())
    near = torch.as_tensor(search.kneighbors(return_distance=False), dtype=torch.int64)
    item = torch.arange(len(points)).repeat_interleave(num_neighbors)
    return torch.stack([item, near.flatten()], 1)


def mutual_neighbors(
    points: Float[Tensor, "item dim"], num_neighbors: int
) -> Int[Tensor, "pair 2"]:
    """Pairs of items, each among the ``num_neighbors`` nearest of the other; once each, i < j.

    A neighbour that is not mutual is often a common item of another cluster near a rare item.

    Examples
    --------
    >>> import torch
    >>> mutual_neighbors(torch.tensor([[0.0], [1.0], [5.0], [7.0], [30.0]]), 1)
    tensor([[0, 1],
            [2, 3]])
    """
    # With sorted ends, a pair occurs twice exactly if both items are neighbours of each other.
    ends = nearest_neighbors(points, num_neighbors).sort(1).values
    pairs, times = ends.unique(dim=0, return_counts=True)
    return pairs[times == 2]


def neighbor_information(
    neighbors: Float[Tensor, "cluster cluster"],
    sizes: Float[Tensor, " cluster"],
    chance_pairs: float,
) -> float:
    """``J = s log(s / a) + t log(t / b) + r (n log(n / a) + u log(u / b))``.

    Here s is the share of pairs of neighbours within one cluster, n that of all pairs, t = 1 - s, u
    = 1 - n, ``a = (s + r n) / (1 + r)`` and ``b = (t + r u) / (1 + r)``. Among pairs of neighbours
    and r times as many by chance, J / (1 + r) is the mutual information between "in one cluster"
    and "neighbours": the maximal log likelihood of a stochastic block model of two rates (Holland
    et al. 1983), minus that without clusters. More clusters lower n, and also s where they separate
    neighbours.

    Parameters
    ----------
    neighbors
        Share of the pairs of neighbours between any two clusters, symmetric, with sum 1.
    sizes
        Share of the items in every cluster.
    chance_pairs
        r.

    Examples
    --------
    >>> import torch
    >>> halves = torch.ones(2) / 2
    >>> round(neighbor_information(torch.eye(2) / 2, halves, chance_pairs=1.0), 4)
    0.4315
    >>> neighbor_information(torch.ones(2, 2) / 4, halves, chance_pairs=1.0)
    0.0
    """
    return float(_information(neighbors.trace(), sizes @ sizes, chance_pairs))


def _information(together: Tensor, by_chance: Tensor, chance_pairs: float) -> Tensor:
    total = torch.zeros_like(together)
    for near, any_two in ((together, by_chance), (1 - together, 1 - by_chance)):
        mean = (near + chance_pairs * any_two) / (1 + chance_pairs)
        mean = mean.clamp_min(_MIN_PROBABILITY)
        total = total + torch.special.xlogy(near, near / mean)
        total = total + chance_pairs * torch.special.xlogy(any_two, any_two / mean)
    return total


def join_by_neighbors(
    neighbors: Float[Tensor, "cluster cluster"],
    sizes: Float[Tensor, " cluster"],
    chance_pairs: float,
) -> Int[Tensor, " cluster"]:
    """Join clusters, the best pair at a time, while ``neighbor_information`` grows.

    Returns
    -------
    Tensor
        For every cluster, the number of the old cluster into which it was merged.

    Examples
    --------
    >>> import torch
    >>> neighbors = torch.tensor([[0.2, 0.1, 0.0], [0.1, 0.2, 0.0], [0.0, 0.0, 0.4]])
    >>> join_by_neighbors(neighbors, torch.tensor([0.3, 0.3, 0.4]), chance_pairs=10.0)
    tensor([0, 0, 2])
    """
    neighbors, sizes = neighbors.double(), sizes.double()

    def gains(member: Float[Tensor, "cluster group"], _: Tensor) -> Tensor:
        joint, size = member.mT @ neighbors @ member, sizes @ member
        # Rounding must not move a share out of [0, 1].
        together = (joint.trace() + joint + joint.mT).clamp(0, 1)
        by_chance = (size @ size + 2 * torch.outer(size, size)).clamp(0, 1)
        value = _information(together, by_chance, chance_pairs)
        return value - neighbor_information(joint, size, chance_pairs)

    return join_best(torch.arange(len(sizes)), gains, least=0.0)


@dataclass(frozen=True)
class NeighborPartition:
    """A partition for a start, in which nearest neighbours are in the same cluster.

    A classifier p(k | o) with K outputs learns to give views of mutual nearest neighbours the same
    cluster, and to use all clusters,

        - mean_ij log sum_k p(k | v(o_i)) p(k | v(o_j)) - b H(mean_i p(. | v(o_i)))

    with b = 3 (Van Gansbeke et al. 2020, eq. 2, whose neighbours are those of a pretrained
    network). The K clusters are then joined while ``neighbor_information`` grows, so the final
    number need not be given. Neither labels nor answers are used.

    Attributes
    ----------
    network
        Makes the classifier: ``network(K)`` maps rows of features to K logits.
    view
        How views are made, e.g. ``RandomAffine``.
    num_neighbors
        Number of nearest items; two items are neighbours if each is one of the other's.
    steps
        Number of training steps of the classifier.
    batch_size
        Pairs of neighbours in a step.
    chance_pairs
        r of ``neighbor_information``: larger values give finer clusters.
    learning_rate
        Of Adam; it falls linearly over the second half of the steps.
    device
        Device of the training, e.g. ``"cuda"``; None for the CPU.

    Raises
    ------
    ValueError
        When called on fewer than two items.
    """

    network: Callable[[int], nn.Module]
    view: View
    num_neighbors: int = 10
    steps: int = 800
    batch_size: int = 256
    chance_pairs: float = 5.0
    learning_rate: float = 2e-3
    device: str | None = None

    def __call__(
        self,
        features: Float[Tensor, "item feature"],
        num_clusters: int,
        generator: torch.Generator,
    ) -> Float[Tensor, "item cluster"]:
        """Assignments of all items; most clusters may be empty."""
        if len(features) < 2:
            raise ValueError(
                f"a partition by neighbours needs at least 2 items, but there are {len(features)}: "
                "start with k-means"
            )
        features = features.to(torch.get_default_dtype())
        pairs = mutual_neighbors(self._coordinates(features), self.num_neighbors)
        network = self.network(num_clusters).to(features.dtype)
        with on_device(self.device, network):
            self._train(network, features, pairs, generator)
            found = self._probabilities(network, features)
        joint = found[pairs[:, 0]].mT @ found[pairs[:, 1]] / len(pairs)
        label = join_by_neighbors((joint + joint.mT) / 2, found.mean(0), self.chance_pairs)
        return torch.zeros_like(found).index_add_(1, label, found)

    @torch.no_grad()
    def _probabilities(self, network: nn.Module, features: Tensor) -> Float[Tensor, "item cluster"]:
        with evaluating(network):
            parts = [network(part.to(self.device)).softmax(-1) for part in features.split(_ROWS)]
        return torch.cat(parts).cpu().double()

    def _coordinates(self, features: Tensor) -> Tensor:
        centered = features - features.mean(0)
        _, vectors = torch.linalg.eigh((centered.mT @ centered).double())
        return centered @ vectors[:, -_COORDINATES:].to(features.dtype)

    def _train(
        self, network: nn.Module, features: Tensor, pairs: Tensor, generator: torch.Generator
    ) -> None:
        optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate)
        for step in range(self.steps):
            for group in optimizer.param_groups:
                group["lr"] = self.learning_rate * min(1.0, 2 * (1 - step / self.steps))
            drawn = torch.randint(len(pairs), (self.batch_size,), generator=generator)
            ends = pairs[drawn].mT.flatten()
            seen = features[ends].to(self.device)
            logits = network(random_views(self.view, seen, generator))
            loss = neighbor_loss(logits.log_softmax(-1), _BALANCE)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def neighbor_loss(
    log_probabilities: Float[Tensor, "end cluster"], balance: float
) -> Float[Tensor, ""]:
    """``- mean_ij log sum_k p_ik p_jk - b H(mean_i p_i)``; left ends, then right ends, of pairs.

    Examples
    --------
    >>> import torch
    >>> neighbor_loss(torch.full((4, 2), 0.5).log(), balance=1.0)       # log 2 - log 2
    tensor(0.)
    """
    first, second = log_probabilities.chunk(2)
    share = log_probabilities.exp().mean(0)
    agreement = (first + second).logsumexp(-1).mean()
    return balance * torch.special.xlogy(share, share).sum() - agreement
