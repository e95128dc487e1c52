"""Columns that follow from others, such as totals, shares that add up, and other units."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float

from pyro_crowdclust.mixture.gaussian import NARROWEST
from pyro_crowdclust.mixture.tails import central_units

# Rows so many central units away in a column are alike in others by that alone.
_FAR = 10.0


def add_information(
    rows: Float[np.ndarray, "row column"], first: Bool[np.ndarray, " column"] | None = None
) -> Bool[np.ndarray, " column"]:
    """Which columns are not linear functions of columns before them, but for next to nothing.

    With C the correlations, and K the columns before j that add something, j adds ``C_jj - C_jK
    C_KK^-1 C_Kj``, a variance, and must add ``NARROWEST``. Components are expected to be no
    narrower in any direction, and where all items are, the ELBO of one with N_k items, and nu
    degrees a priori, grows by ``N_k / 2 log(1 + N_k / nu)``, whatever it is of, so that too few
    components win.

    A column follows if it does so in the rows that are far away in no column, and in all rows. Rows
    with gaps do not count, and where there are too few others all columns are kept.

    Parameters
    ----------
    rows
        Columns that vary.
    first
        Columns that come before all others; else the order is that of the table.

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
