"""First partitions into few large clusters, by spectral clustering of the answers."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.partitions.asked_pairs import AskedPairs

# Number of eigenvectors, which is also the largest number of clusters; how many gaps between
# eigenvalues give a number of clusters; and up to where all numbers are tried.
_MAX_CLUSTERS, _GAPS, _SMALL = 20, 3, 6
# Arnoldi's iteration ends early, or misses some, where eigenvalues are equal, so this small noise
# is added. It is also the tolerance, relative to the one that is added to all eigenvalues, many of
# which are near zero.
_NOISE = 1e-6


def spectral_partitions(
    shares: Float[Tensor, " pair"], pairs: AskedPairs, generator: torch.Generator
) -> list[Int[Tensor, " item"]]:
    """Spectral clusterings of shares of "same", into several numbers of clusters.

    k-means on the eigenvectors of ``D^-1/2 A D^-1/2`` (Ng, Jordan and Weiss 2001), with A the share
    of "same" of every pair, 0 where nobody was asked, and D its row sums, to which a tenth of their
    mean is added for items with few answers (Amini et al. 2013). The graph is sparse. The numbers
    of clusters are those at the largest gaps between eigenvalues, and all small ones.

    Parameters
    ----------
    shares
        Share of "same" among the answers about every pair.
    pairs
        The pairs.
    generator
        Seeds k-means.

    Returns
    -------
    Labels of every partition; first that of the largest gap.
    """
    # Imported here, as they take long to load.
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components
    from scipy.sparse.linalg import eigsh
    from sklearn.cluster import KMeans

    num_items = pairs.num_items
    most = min(_MAX_CLUSTERS + 1, num_items - 1)
    if most < 3:
        return [torch.zeros(num_items, dtype=torch.int64)]
    ends = pairs.left.numpy(), pairs.right.numpy()
    half = sparse.coo_array((shares.numpy(), ends), (num_items, num_items))
    affinity = (half + half.T).tocsr()
    degrees = np.asarray(affinity.sum(1)).ravel()
    scale = sparse.dia_array(
        ((degrees + 0.1 * degrees.mean() + 1e-12)[None] ** -0.5, [0]), (num_items, num_items)
    )
    seed = int(torch.randint(2**31, (), generator=generator))
    rng = np.random.default_rng(seed)
    first, noise = rng.normal(size=num_items), _NOISE * rng.random(num_items)
    matrix = scale @ affinity @ scale + sparse.diags_array(1 + noise)
    values, vectors = eigsh(matrix, k=most, which="LA", v0=first, tol=_NOISE)
    values, vectors = values[::-1], vectors[:, ::-1]
    # K clusters are at the gap after the K-th value; the first value is that of all items together.
    by_gap = 2 + np.argsort(values[2:] - values[1:-1], kind="stable")
    # Items that no chain of pairs connects are separated, whatever k-means says.
    part = torch.as_tensor(connected_components(affinity)[1], dtype=torch.int64)
    numbers = dict.fromkeys([*by_gap[:_GAPS].tolist(), *range(2, _SMALL + 1)])
    found = []
    for number in (number for number in numbers if number < most):
        rows = vectors[:, :number]
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        labels = KMeans(number, n_init=5, random_state=seed).fit_predict(rows)
        labels = part * number + torch.as_tensor(labels, dtype=torch.int64)
        found.append(torch.unique(labels, return_inverse=True)[1])
    return found
