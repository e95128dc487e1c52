"""Features of items whose classes are known: the Pinwheel."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from pyro_crowdclust.errors import check_whole


def pinwheel(
    num_clusters: int = 5,
    num_per_cluster: int = 100,
    *,
    radial_std: float = 0.3,
    tangential_std: float = 0.05,
    rate: float = 0.25,
    seed: int,
) -> tuple[Float[np.ndarray, "item 2"], Int[np.ndarray, " item"]]:
    """``x = 10 (r cos t + s sin t, s cos t - r sin t)``, bent arms around the origin.

    With ``r ~ N(1, radial_std^2)`` along arm ``k``, ``s ~ N(0, tangential_std^2)`` across it and
    the angle ``t = 2 pi k / num_clusters + rate exp(r)``, as in Johnson et al. 2016: arms bend more
    further out. The items are shuffled.

    Parameters
    ----------
    num_clusters, num_per_cluster
        Number of arms, and of items on each.
    radial_std, tangential_std
        Spread along and across an arm, in units of the mean radius (10 in the output).
    rate
        Bend of the arms, in radians; 0 gives straight ones.
    seed
        The same seed gives the same data.

    Returns
    -------
    Features of shape ``[num_clusters * num_per_cluster, 2]``, and the arm of every item.

    Raises
    ------
    ValueError
        Where a number is not positive or a spread is negative.

    Examples
    --------
    >>> features, labels = pinwheel(3, 50, seed=0)
    >>> features.shape, np.bincount(labels).tolist()
    ((150, 2), [50, 50, 50])
    """
    check_whole("num_clusters", num_clusters, least=1)
    check_whole("num_per_cluster", num_per_cluster, least=1)
    if not (radial_std >= 0 and tangential_std >= 0):
        raise ValueError(
            "radial_std and tangential_std must not be negative, but are "
            f"{radial_std} and {tangential_std}"
        )
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(num_clusters), num_per_cluster))
    radial = 1 + radial_std * rng.standard_normal(len(labels))
    tangential = tangential_std * rng.standard_normal(len(labels))
    angle = 2 * np.pi * labels / num_clusters + rate * np.exp(radial)
    cosine, sine = np.cos(angle), np.sin(angle)
    features = np.stack(
        [radial * cosine + tangential * sine, tangential * cosine - radial * sine], axis=1
    )
    return 10 * features, labels
