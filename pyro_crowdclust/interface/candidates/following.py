"""Redundant columns, which follow from others: totals, shares that add up to one, other units."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float

from pyro_crowdclust.mixture.gaussian import NARROWEST
from pyro_crowdclust.mixture.tails import central_units

# Rows this many central units away in a column correlate other columns by that alone.
_FAR = 10.0


def add_information(
    rows: Float[np.ndarray, "row column"], first: Bool[np.ndarray, " column"] | None = None
) -> Bool[np.ndarray, " column"]:
    """Which columns are not linear functions of the columns before them, up to a tiny residual.

    With C the correlations, and K the kept columns before j, column j adds the variance ``C_jj -
    C_jK C_KK^-1 C_Kj``, and is kept if that is at least ``NARROWEST``. Components are expected not
    to be narrower in any direction. If all items were, the ELBO of a component with N_k items, and
    nu degrees of freedom a priori, would grow by ``N_k / 2 log(1 + N_k / nu)``, whatever the
    component, so that too few components would win.

    A column is redundant only if it is so both in all rows, and in the rows without outliers. Rows
    with gaps are left out, and if there are too few others, all columns are kept.

    Parameters
    ----------
    rows
        Columns that vary.
    first
        Columns that come before all others; None: the order of the table.

    Examples
    --------
    >>> parts = np.random.default_rng(0).normal(size=(50, 2))
    >>> add_information(np.column_stack([parts, parts.sum(1)])).tolist()
    [True, True, False]
    """
    rows = rows[~np.isnan(rows).any(1)]
    number = rows.shape[1]
    kept = np.ones(number, dtype=bool)
    if number < 2 or len(rows) <= 2 * number:
        return kept
    median, unit = (of.numpy() for of in central_units(torch.from_numpy(rows)))
    is_far = (np.abs(rows - median) > _FAR * unit) & (unit > 0)
    near = rows[~is_far.any(1)]
    scale = near.std(0)
    if len(near) <= 2 * number or not (scale > 0).all():
        return kept
    near, rows = (near - near.mean(0)) / scale, (rows - near.mean(0)) / scale
    order = range(number) if first is None else np.argsort(~first, kind="stable").tolist()
    before: list[int] = []
    for column in order:
        by = np.linalg.lstsq(near[:, before], near[:, column], rcond=None)[0]
        added = near[:, column] - near[:, before] @ by
        variance = added @ added / (len(near) - len(before) - 1)
        added_in_all = (rows[:, column] - rows[:, before] @ by).var() / rows[:, column].var()
        kept[column] = variance >= NARROWEST or added_in_all >= NARROWEST
        if kept[column]:
            before.append(column)
    return kept
