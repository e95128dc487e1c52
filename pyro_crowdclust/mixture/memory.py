"""How much memory full covariances need, checked before it is allocated."""

from __future__ import annotations

import os

from pyro_crowdclust.errors import warn

# Measured peaks of fits on 40 to 400 items of 500 features, in multiples of d^2 numbers: per
# cluster the prior, posterior, mean, gradient and intermediate results; per item that is processed
# at the same time, its statistics and their root.
_PER_CLUSTER, _PER_ROW = 16, 4
_WARN_ABOVE = 0.25


def check_covariance_memory(num_clusters: int, dim: int, num_rows: int = 0) -> None:
    """Raise a ``ValueError`` if full Gaussians need more memory than the machine has.

    They need ``8 d^2 (16 K + 4 rows)`` bytes, with at most a few thousand rows at a time.

    Warns
    -----
    UserWarning
        If they need over a quarter of it.
    """
    memory = physical_memory()
    needed = 8 * dim**2 * (_PER_CLUSTER * num_clusters + _PER_ROW * num_rows)
    if memory is None or needed <= _WARN_ABOVE * memory:
        return
    rows = f", {num_rows:,} items at a time," if num_rows else ""
    message = (
        f"{num_clusters} full Gaussians on {dim:,} features{rows} take about "
        f"{needed / 2**30:,.3g} GB of the {memory / 2**30:,.3g} GB here: use "
        "DiagonalGaussianComponents, or fewer features (their principal components), or a model "
        "with networks, whose latents have few dimensions"
    )
    if needed > memory:
        raise ValueError(message)
    warn(message)


def physical_memory() -> int | None:
    """Bytes of memory of this machine; None if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
