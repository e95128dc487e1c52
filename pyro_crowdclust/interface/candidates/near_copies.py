"""Near-copies: rows that are nearly equal, such as repeated measurements, views and frames."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist

# This many groups, or fewer, may be clusters, ...
MAX_CLUSTERS = 40
# ... and so may groups of more rows than this.
_MAX_COPIES = 10
# Other groups are near-copies if they have at least this share of the rows, ...
_MIN_SHARE = 0.5
# ... and other rows are at least this many times as far away, ...
_GAP = 3.0
# ... except for this share of the distances.
_WITHIN_GAP = 0.05


def near_copy_groups(
    points: Float[np.ndarray, "row column"], max_clusters: int = MAX_CLUSTERS
) -> Int[np.ndarray, " row"]:
    """The number of the group of near-copies of each row; most rows are alone in theirs.

    Rows are joined along the edges of their minimum spanning tree, of lengths e_1 <= ... <= e_{n -
    1} (single linkage). Cut at h, they are near-copies if

        #{e : h < e <= 3 h} <= (n - 1) / 20

    and if the groups of n_g >= 2 rows that are left at 3 h have half of the rows, are more than
    ``max_clusters``, counted as ``(sum_g n_g)^2 / sum_g n_g^2`` (Simpson 1949), which is their
    number if all have the same size, and have at most ten rows, ``sum_g n_g^2 / sum_g n_g <= 10``.
    Clusters are fewer, or larger. Rows of a smooth density have no such gap: in D dimensions,
    ``r^D`` is exponential for the distance r to the nearest neighbour, so that with half of the
    rows below h, a share of ``1 / 2 - 2^{-3^D}`` is in the gap, at least three eighths.

    Parameters
    ----------
    points
        Different rows, in units in which columns are comparable.
    max_clusters
        This many groups may be clusters.

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
    # A single row is no group, and has size 0.
    length, size = tree[:, 2], np.concatenate([np.zeros(number), tree[:, 3]])
    # Every merge replaces two groups by one.
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
