"""k-means for starts: from a torch generator, with no more clusters than distinct points."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor


def k_means(
    points: Float[Tensor, "item coordinate"],
    max_clusters: int,
    generator: torch.Generator,
    *,
    num_starts: int = 1,
) -> Any:
    """Fitted ``sklearn.cluster.KMeans`` of no more clusters than there are distinct points.

    Parameters
    ----------
    points
        The items.
    max_clusters
        Number of clusters, if there are that many distinct points.
    generator
        Source of the seed.
    num_starts
        Number of runs; the best one is kept.

    Examples
    --------
    >>> points = torch.tensor([[0.0], [0.0], [9.0]])
    >>> len(k_means(points, 5, torch.Generator().manual_seed(0)).cluster_centers_)
    2
    """
    from sklearn.cluster import KMeans  # late: loading it takes a while

    seed = int(torch.randint(2**31, (), generator=generator))
    number = min(max_clusters, len(np.unique(points.numpy(), axis=0)))
    return KMeans(number, n_init=num_starts, random_state=seed).fit(points.numpy())
