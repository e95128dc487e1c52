"""Rows that are nearly the same, such as repeated measurements, views and frames."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist

# So many groups, or fewer, may be clusters, ...
MAX_CLUSTERS = 40
# ... and so may larger groups than this.
_MAX_COPIES = 10
# Others are near-copies if they hold at least so many of the rows, ...
_MIN_SHARE = 0.5
# ... and the next rows are so many times as far away, ...
_GAP = 3.0
# ... but for so many.
_WITHIN_GAP = 0.05


def near_copy_groups(
    points: Float[np.ndarray, "row column"], max_clusters: int = MAX_CLUSTERS
) -> Int[np.ndarray, " row"]:
    """The group of near-copies that each row is of, by a number of its own; most are alone.

    Rows are joined along the edges of their minimum spanning tree, of lengths e_1 <= ... <= e_{n -
    1} (single linkage). Cut at h, they are near-copies if

        #{e : h < e <= 3 h} <= (n - 1) / 20

    and the groups of n_g >= 2 rows that are left at 3 h hold half of the rows and are more than
    ``max_clusters``, counted as ``(sum_g n_g)^2 / sum_g n_g^2`` (Simpson 1949), which is their
    number where they are of one size, and ten rows each or less, ``sum_g n_g^2 / sum_g n_g <= 10``.
    Clusters are fewer, or larger. And rows of a smooth density have no such gap: in D dimensions
    the nearest neighbour of a row, at a distance r, has ``r^D`` exponential, so that with half of
    the rows below h a share of ``1 / 2 - 2^{-3^D}`` is in the gap, three eighths at least.

    Parameters
    ----------
    points
        Different rows, in units that make columns alike.
    max_clusters
        So many groups may be clusters.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> points = rng.normal(size=(60, 2))
    >>> len(np.unique(near_copy_groups(points)))
    60
    >>> len(np.unique(near_copy_groups(np.repeat(points, 5, 0) + 1e-3 * rng.normal(size=(300, 2)))))
    60
    """
    number = len(points)
    alone = np.arange(number)
    if number <= 2 * max_clusters:  # too few for so many groups
        return alone
    tree = linkage(pdist(points), "single")
    # Who is alone is no group.
    length, size = tree[:, 2], np.concatenate([np.zeros(number), tree[:, 3]])
    # Every merge makes one group of two.
    parts, made = tree[:, :2].astype(int), size[number:]
    rows = np.cumsum(made - size[parts].sum(1))
    squares = np.cumsum(made**2 - (size**2)[parts].sum(1))
    below, end = (np.searchsorted(length, h, "right") for h in (length, _GAP * length))
    rows, squares = rows[end - 1], squares[end - 1]
    are_groups = (rows >= _MIN_SHARE * number) & (rows**2 > max_clusters * squares)
    are_groups &= squares <= _MAX_COPIES * rows
    is_gap = (length > 0) & (end - below <= _WITHIN_GAP * len(length))
    are_copies = are_groups & is_gap
    if not are_copies.any():
        return alone
    cut = length[np.where(are_copies, end - below, number).argmin()]
    return fcluster(tree, cut, "distance").astype(int)
