"""Rounded numbers: their steps, equal rows, and noise within the steps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data.tensors import numbers_of
from pyro_crowdclust.interface.candidates.coordinates import is_real, sample_of

# Steps below this share of a column's standard deviation do no harm.
_FINE = 1e-3
# Standard deviation of a cluster, at least, as a share of the column's.
_NARROW = 0.2


def unrounded(data: CrowdData, atoms: Float[Tensor, " feature"] | None = None) -> CrowdData:
    """The data with real numbers drawn from ``[x - r / 2, x + r / 2]``, r the step of the column.

    The step is the smallest difference between two values of the column. If many items have the
    same number, a component can collapse on it: its density there, and the ELBO, grow without
    bound, whatever the clusters. With noise, no density is narrower than the precision of the
    numbers, and the ELBO is that of numbers that were not rounded.

    Unchanged are columns with steps far below their standard deviation, features on disk, and
    ``atoms``: for each feature, a number for which components have a probability mass (or NaN).

    Examples
    --------
    >>> data = CrowdData(np.array([[0.0, 0.13], [0.0, 0.28], [1.0, 1.41]]))
    >>> close = np.abs(unrounded(data).features - data.features)
    >>> bool((close.max(0) <= [0.5, 0.075]).all())
    True
    """
    if data.features_in_memory is None:
        return data
    features = numbers_in(data)
    columns = features.reshape(len(features), -1)
    steps = steps_of(data)
    if not (steps > 0).any():
        return data
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, columns.shape) * steps
    if atoms is not None:
        noise[columns == atoms.numpy()] = 0
    return data.with_parts(features=features + noise.reshape(features.shape))


def numbers_in(data: CrowdData) -> Float[np.ndarray, "item ..."]:
    """The features as an array in double precision."""
    features: Any = data.features
    found = numbers_of(features, "features") if isinstance(features, Tensor) else features
    return np.asarray(found, dtype=np.float64)


def steps_of(data: CrowdData) -> Float[np.ndarray, " feature"]:
    """The step of every real column, from a few thousand items; 0 if it does no harm."""
    return np.where(is_real(data).numpy(), _steps(sample_of(data).numpy()), 0.0)


def have_fine_steps(data: CrowdData) -> Bool[np.ndarray, " feature"]:
    """Which columns hold real numbers with steps so fine that two are hardly ever equal."""
    rows = numbers_in(data).reshape(data.num_items, -1)
    varies = np.fmin.reduce(rows) < np.fmax.reduce(rows)
    return is_real(data).numpy() & varies & (_steps(rows) == 0)


def log_chance_equal(
    rows: Float[np.ndarray, "row column"], real: Bool[np.ndarray, " column"]
) -> Float[np.ndarray, " column"]:
    """``log c_j`` of every column, with c_j the chance of equal numbers in a cluster.

    This is the chance that two items of a cluster have the same number in column j.

    A normal cluster of standard deviation w, with numbers rounded to a step r, has ``c = r / (2
    sqrt(pi) w)``, where w is assumed to be a fifth of the column's. With fine steps the chance is
    0; columns of other kinds than real numbers may be equal in the whole cluster, c = 1.
    """
    found = np.zeros(rows.shape[1])
    places = np.flatnonzero(real & (np.fmin.reduce(rows) < np.fmax.reduce(rows)))
    width = _NARROW * np.nanstd(rows[:, places], axis=0)
    with np.errstate(divide="ignore"):  # fine steps have chance 0
        found[places] = np.log(_steps(rows)[places] / (2 * math.sqrt(math.pi) * width))
    return np.minimum(found, 0.0)


def first_equal(rows: Float[np.ndarray, "row column"]) -> Int[np.ndarray, " row"]:
    """For each row, the position of the first row equal to it, gaps included.

    Examples
    --------
    >>> first_equal(np.array([[3.0, np.nan], [1.0, 0.0], [3.0, np.nan], [1.0, -0.0]])).tolist()
    [0, 1, 0, 1]
    """
    # -0.0 becomes 0.0, so that equal rows have equal bytes.
    whole = np.ascontiguousarray(rows + 0.0)
    keys = whole.view(np.dtype((np.void, whole.dtype.itemsize * whole.shape[1]))).reshape(-1)
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    return first[place.reshape(-1)]


def _steps(rows: Float[np.ndarray, "row column"]) -> Float[np.ndarray, " column"]:
    rows = rows[np.unique(first_equal(rows))]
    seen = (column[~np.isnan(column)] for column in rows.T)
    return np.array([_step(column, own=rows.shape[1] > 1) for column in seen])


def _step(column: Float[np.ndarray, " row"], own: bool) -> float:
    """The smallest difference between two values, or 0 if it does no harm.

    ``own``: there are other columns, so that a column without two equal values was not rounded.
    """
    values = np.unique(column)
    if len(values) < 2 or (own and len(values) == len(column)):
        return 0.0
    step = float(np.diff(values).min())
    return step if step > _FINE * column.std() else 0.0
