"""Columns that follow from others, such as totals, shares that add up, and other units."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.linalg import lstsq, qr

from pyro_crowdclust.mixture.gaussian import NARROWEST
from pyro_crowdclust.mixture.tails import central_units

# Rows so many central units away in a column are alike in others by that alone.
_FAR = 10.0


def add_something(rows: Float[np.ndarray, "row column"]) -> Bool[np.ndarray, " column"]:
    """Which columns are not linear functions of others, but for next to nothing.

    QR with pivots takes standardized columns in the order of what they add to those before, of
    which ``R_jj^2 / (n - j)`` is the variance, j from 1. A column adds something if that is
    ``NARROWEST`` or more. Components are expected to be no narrower in any direction, and where all
    items are, the ELBO of one with N_k items, and nu degrees a priori, grows by ``N_k / 2 log(1 +
    N_k / nu)``, whatever it is of, so that too few components win.

    A column follows if it does so in the rows that are far away in no column, and in all rows. Rows
    with gaps do not count, and where there are too few others all columns are kept.

    Examples
    --------
    >>> parts = np.random.default_rng(0).normal(size=(50, 3))
    >>> add_something(np.column_stack([parts, parts.sum(1)])).sum()
    np.int64(3)
    """
    rows = rows[~np.isnan(rows).any(1)]
    kept = np.ones(rows.shape[1], dtype=bool)
    if len(kept) < 2 or len(rows) <= 2 * len(kept):
        return kept
    median, unit = (of.numpy() for of in central_units(torch.from_numpy(rows)))
    is_far = np.abs(rows - median) > _FAR * unit
    near = rows[~(is_far & (unit > 0)).any(1)]
    scale = near.std(0)
    if len(near) <= 2 * len(kept) or not (scale > 0).all():
        return kept
    near, rows = (near - near.mean(0)) / scale, (rows - near.mean(0)) / scale
    triangle, order = qr(near, mode="r", pivoting=True)
    added = np.diagonal(triangle) ** 2 / (len(near) - np.arange(len(kept)) - 1)
    kept[order[added < NARROWEST]] = False
    if kept.all():
        return kept
    left = rows[:, ~kept] - rows[:, kept] @ lstsq(near[:, kept], near[:, ~kept])[0]
    kept[~kept] = left.var(0) >= NARROWEST * rows[:, ~kept].var(0)
    return kept
