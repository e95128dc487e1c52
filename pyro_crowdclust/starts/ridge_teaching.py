"""Teaching by ridge regression: a linear map from fixed features to known clusters."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.networks.patches import PatchClassifier
from pyro_crowdclust.starts.descent import features_for

# Candidate penalties, in units of the mean square of an item's features, and sharpnesses.
_PENALTIES = tuple(2.0**power for power in range(-7, 4))
_SHARPNESSES = (1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0)


@dataclass(frozen=True)
class RidgeTeaching:
    """Teach a ``PatchClassifier`` the clusters of some items in closed form.

    ``min_(B, b)  sum_i |e(c_i) - b - B s(o_i)|^2 + l |B|^2``,  logits ``h (B s(o) + b)``,

    with e(c) one-hot. Penalty l and sharpness h maximize ``sum_i log p(c_i)``, where every item is
    predicted from all others: with ``H = S (S^T S + l I)^-1 S^T`` of centered features S and n
    items, and Y the centered targets, the error at item i when it is left out is
    ``(Y - H Y)_i / (1 - H_ii - 1 / n)``. Patterns are learned from all items first. Wrong clusters
    cannot be memorized, since the penalty is chosen by predictions from other items.

    Raises
    ------
    ValueError
        When the network is not a ``PatchClassifier``.
    """

    @torch.no_grad()
    def teach(
        self,
        network: nn.Module,
        data: CrowdData,
        clusters: Int[Tensor, " item"],
        generator: torch.Generator,
    ) -> None:
        """Set patterns and linear map of a network, in place."""
        if not isinstance(network, PatchClassifier):
            raise ValueError(
                f"ridge regression can teach a PatchClassifier only, not a "
                f"{type(network).__name__}: use a PatchClassifier for q(z | o), or ViewTeaching"
            )
        known = (clusters >= 0).nonzero().squeeze(1)
        some = known[torch.randperm(len(known), generator=generator)]
        others = torch.randint(data.num_items, (len(some),), generator=generator)
        seen = features_for(network, data, torch.cat([some, others]))
        network.learn_patterns(seen, generator)
        pooled = network.pooled(features_for(network, data, known))
        network.standardize(pooled)
        weight, bias = regressed(
            network.standardized(pooled),
            clusters[known].to(pooled.device),
            network.head.out_features,
        )
        network.head.weight.copy_(weight)
        network.head.bias.copy_(bias)


def regressed(
    seen: Float[Tensor, "item feature"], clusters: Int[Tensor, " item"], num_clusters: int
) -> tuple[Float[Tensor, "cluster feature"], Float[Tensor, " cluster"]]:
    """``h B`` and ``h b`` of ``RidgeTeaching``."""
    target = nn.functional.one_hot(clusters, num_clusters).to(seen)
    center, share = seen.mean(0), target.mean(0)
    seen, target = seen - center, target - share
    points, directions = along_directions(seen)
    values = points.square().sum(0)
    unit = values.sum() / len(seen)
    best, chosen = -torch.inf, (torch.zeros_like(points.mT @ target), 1.0)
    for penalty in (unit * factor for factor in _PENALTIES):
        solution = (points.mT @ target) / (values + penalty).unsqueeze(1)
        predicted = target + share - left_out_errors(points, target, solution, penalty)
        for sharpness in _SHARPNESSES:
            log_loss = nn.functional.cross_entropy(sharpness * predicted, clusters)
            if -float(log_loss) > best:
                best, chosen = -float(log_loss), (solution, sharpness)
    solution, sharpness = chosen
    weight = solution.mT @ directions
    return sharpness * weight, sharpness * (share - weight @ center)


def along_directions(
    seen: Float[Tensor, "item feature"],
) -> tuple[Float[Tensor, "item direction"], Float[Tensor, "direction feature"]]:
    """Centered features along their principal directions, and these, from the smaller Gram matrix.

    It is far faster than a singular value decomposition, and penalties are not small.
    """
    if len(seen) > seen.shape[1]:
        directions = torch.linalg.eigh(seen.mT @ seen).eigenvectors.mT
        return seen @ directions.mT, directions
    values, left = torch.linalg.eigh(seen @ seen.mT)
    size = values.clamp_min(0).sqrt()
    smallest = torch.finfo(size.dtype).tiny
    return left * size, left.mT @ seen / size.clamp_min(smallest).unsqueeze(1)


def left_out_errors(
    points: Float[Tensor, "item direction"],
    target: Float[Tensor, "item cluster"],
    solution: Float[Tensor, "direction cluster"],
    penalty: Float[Tensor, ""],
) -> Float[Tensor, "item cluster"]:
    """Leave-one-out error at every item.

    Parameters
    ----------
    points
        Centered features along their principal directions.
    target
        Y.
    solution
        The ridge regression of Y on the points.
    penalty
        l.
    """
    squares = points.square()
    own = (squares / (squares.sum(0) + penalty)).sum(1)
    return (target - points @ solution) / (1 - own - 1 / len(points)).unsqueeze(1)
