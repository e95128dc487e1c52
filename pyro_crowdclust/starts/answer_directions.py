"""Directions of the features along which the answers separate items, and partitions by them."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.starts.k_means import k_means

# Lower limit of the variance of a direction, as a share of the mean variance.
_MIN_VARIANCE = 0.02


def answer_directions(
    points: Float[Tensor, "item coordinate"],
    left: Int[Tensor, " pair"],
    right: Int[Tensor, " pair"],
    label: Float[Tensor, " pair"],
) -> Float[Tensor, "item direction"]:
    """Coordinates of the items along the directions that separate "same" from "different" pairs.

        D = mean_p (L_p - mean L) (x_i x_j' + x_j x_i') / 2

    for answers ``L_p`` about items i and j, with coordinates x of mean 0 and covariance 1. For
    pairs that were chosen independently of their features,

        E[D] = (alpha + beta - 1) sum_k pi_k^2 m_k m_k'

    since ``E[L | x] - E[L]`` is ``(alpha + beta - 1) ([z_i = z_j] - E[z_i = z_j])`` and
    ``E[x] = 0``: a matrix with at most K - 1 positive eigenvalues, whose eigenvectors span the
    means ``m_k`` of the clusters, although the clusters need not be known. Noise adds eigenvalues
    of both signs equally. So the directions are those whose eigenvalue exceeds the absolute value
    of the most negative one; at least one direction is returned.

    Unlike groups of items that answers connect, it does not need several answers about an item.

    Parameters
    ----------
    points
        Coordinates of the items.
    left, right, label
        The items of every pair, and the answer, from 0 ("different") to 1 ("same").

    Returns
    -------
    Tensor
        Coordinates along the directions, the one with the largest eigenvalue last, times the root
        of the eigenvalue: the product of two rows is ``x_i' D x_j`` without the other directions.

    Examples
    --------
    >>> corner = torch.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]])  # same if the second is
    >>> left, right = torch.tensor([0, 0, 0, 1, 1, 2]), torch.tensor([1, 2, 3, 2, 3, 3])
    >>> label = torch.tensor([0.0, 1, 0, 0, 1, 0])
    >>> sides = answer_directions(corner, left, right, label)
    >>> sides.sign().squeeze(1).tolist() in ([1, -1, 1, -1], [-1, 1, -1, 1])
    True
    """
    centered = points - points.mean(0)
    variances, axes = torch.linalg.eigh(centered.mT @ centered / len(points))
    least = _MIN_VARIANCE * float(variances.mean()) or 1.0
    white = (centered @ axes) / variances.clamp_min(least).sqrt()
    surprise = (label - label.mean()).unsqueeze(1)
    moment = white[left].mT @ (surprise * white[right]) / len(label)
    strengths, directions = torch.linalg.eigh((moment + moment.mT) / 2)
    is_seen = strengths > -strengths[0]
    is_seen[-1] = True
    return (white @ directions[:, is_seen]) * strengths[is_seen].clamp_min(0).sqrt()


def partition_along(
    along: Float[Tensor, "item direction"], *, max_groups: int, generator: torch.Generator
) -> Int[Tensor, " item"]:
    """k-means along some directions, with one more group than there are directions.

    Parameters
    ----------
    along
        Items along the directions, as ``answer_directions`` returns them.
    max_groups
        Maximum number of groups.
    generator
        Source of the seed of k-means.
    """
    found = k_means(along, min(along.shape[1] + 1, max_groups), generator, num_starts=5)
    return torch.as_tensor(found.labels_, dtype=torch.int64)
