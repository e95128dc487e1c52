"""Directions of the features along which answers tell items apart, and partitions by these."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.starts.k_means import k_means

# Directions that hardly vary are taken to vary by this share of the mean variance.
_LEAST_VARIANCE = 0.02


def answer_directions(
    points: Float[Tensor, "item coordinate"],
    left: Int[Tensor, " pair"],
    right: Int[Tensor, " pair"],
    label: Float[Tensor, " pair"],
) -> Float[Tensor, "item direction"]:
    """Items along the directions by which answers about pairs tell them apart.

        D = mean_p (L_p - mean L) (x_i x_j' + x_j x_i') / 2

    for answers ``L_p`` about items i and j, with coordinates x of mean 0 and covariance 1. Of pairs
    that were asked about whatever their features,

        E[D] = (alpha + beta - 1) sum_k pi_k^2 m_k m_k'

    since ``E[L | x] - E[L]`` is ``(alpha + beta - 1) ([z_i = z_j] - E[z_i = z_j])`` and ``E[x] =
    0``: a matrix of at most K - 1 positive eigenvalues, whose eigenvectors span the means ``m_k``
    of the clusters, and nobody has to know the clusters. What chance adds has eigenvalues of both
    signs alike. So the directions are those whose eigenvalue is larger than the smallest one is
    below zero, at least one.

    It needs no two answers about one item, where groups of items that answers keep together do.

    Parameters
    ----------
    points
        Coordinates of the items.
    left, right, label
        The items of every pair, and how much somebody called them the same.

    Returns
    -------
    Tensor
        Coordinates along the directions, the clearest one last, times the root of the eigenvalue:
        ``x_i' D x_j`` but for the other directions is the product of two rows.

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
    least = _LEAST_VARIANCE * float(variances.mean()) or 1.0
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
    """k-means along some directions: a group more than there are directions, if that many.

    Parameters
    ----------
    along
        Items along the directions, as of ``answer_directions``.
    max_groups
        At most so many groups.
    generator
        Of the starts of k-means.
    """
    found = k_means(along, min(along.shape[1] + 1, max_groups), generator, num_starts=5)
    return torch.as_tensor(found.labels_, dtype=torch.int64)
