"""Features of items: read from arrays, tensors and data frames, and checked."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.utils.data import Dataset

from pyro_crowdclust.data.columns import Columns, columns_of_array
from pyro_crowdclust.data.stored_features import (
    DatasetFeatures,
    IndexedDataset,
    MemmapFeatures,
    StoredFeatures,
)
from pyro_crowdclust.data.tables import count, is_dense, show, what_it_is

# Finite checks read about this many numbers at a time, so that a memory map is never loaded whole.
_CHUNK_ELEMENTS = 2**22
# Smaller memory maps are read like arrays, and stay in memory once they have been.
_IN_MEMORY_BYTES = 2**26
# Squares of larger numbers, and sums of them, may be infinite.
_LARGEST = 1e100
# Integers up to here are floating-point numbers of single precision.
_SINGLE = 2**24
# Numbers are rounded away where neighbours differ by more than this share of all their range.
_BLUR = 1e-3


class ReadFeatures(NamedTuple):
    """Features as they are read.

    Attributes
    ----------
    values
        A row of numbers per item, NaN where one is missing.
    columns
        What the columns of a table hold; None of other features, which are real numbers.
    num_missing
        How many numbers are missing.
    """

    values: np.ndarray | Tensor | StoredFeatures
    columns: Columns | None
    num_missing: int


def read_features(
    features: Any, kinds: Mapping[Hashable, str] | None = None, columns: Columns | None = None
) -> ReadFeatures:
    """Features as they are read, with a row per item; a ``ValueError`` if they are not.

    Numbers in memory are checked here, stored ones when they are read, and these have no gaps.

    Parameters
    ----------
    features
        What a user passed.
    kinds
        What some columns hold, by name or position, in place of what they look like.
    columns
        What the columns of the fit hold, which new items are of.
    """
    are_new = columns is not None
    features = _opened(features)
    if isinstance(features, pd.DataFrame):
        columns = columns or Columns.of(features, kinds)
        features = columns.encode(features)
    elif columns is not None and any(own is not None for own in columns.levels):
        raise ValueError(
            f"the fit was on a table with categories ({columns}), but the features are a "
            f"{type(features).__name__}: pass a data frame with the same columns"
        )
    features = _checked(features)
    if isinstance(features, StoredFeatures):
        return ReadFeatures(features, columns, 0)
    if isinstance(features, np.ndarray):
        features = _exact(features)
    elif not features.is_floating_point():
        features = torch.from_numpy(_exact(features.numpy(force=True))).to(features.device)
    num_missing = _num_missing(features, columns)
    if num_missing == math.prod(features.shape) and not are_new:
        raise ValueError("all features are missing (NaN): pass features, or None")
    if columns is None:
        columns = columns_of_array(features, kinds)
    return ReadFeatures(features, columns, num_missing)


def _opened(features: Any) -> Any:
    """Lists and masked arrays as arrays, and what is on disk as features that stay there."""
    if isinstance(features, (list, tuple)):
        features = _rows(features)
    if isinstance(features, np.ma.MaskedArray):
        return unmasked(features)
    if isinstance(features, Dataset):
        # A dataset that cannot be indexed is refused there.
        return DatasetFeatures(cast(IndexedDataset, features))
    if isinstance(features, np.memmap) and features.nbytes > _IN_MEMORY_BYTES:
        return MemmapFeatures(features) if MemmapFeatures.reads(features) else features
    return features


def unmasked(features: np.ma.MaskedArray) -> np.ndarray:
    """The numbers, and what is masked as missing."""
    return np.ma.filled(features.astype(np.float64), np.nan)


def _checked(features: Any) -> StoredFeatures | Tensor | np.ndarray:
    """The features, if they are dense numbers and there are any."""
    if isinstance(features, StoredFeatures):
        is_numeric = features.dtype.kind in "biuf"
    elif isinstance(features, Tensor):
        if not is_dense(features):
            raise ValueError(
                f"features are a tensor that is {what_it_is(features)}, and not dense real "
                "numbers: convert them, with .to_dense() or .dequantize() say"
            )
        features, is_numeric = features.detach(), True
    elif isinstance(features, np.ndarray):
        is_numeric = features.dtype.kind in "biuf"
    else:
        raise ValueError(
            f"features are a {type(features).__name__}; pass an array, a tensor, a data frame or "
            "a dataset (`.toarray()` of a sparse matrix, `.to_frame()` of a series, "
            "`pandas.read_csv` of a file)"
        )
    if not is_numeric:
        raise ValueError(
            f"features of dtype {features.dtype} are not dense real numbers; convert them, or pass "
            "a data frame, whose columns may hold other things"
        )
    if features.ndim == 0 or 0 in features.shape:
        raise ValueError(
            f"features have shape {tuple(features.shape)}; pass at least one row, and at least one "
            "number per row"
        )
    return features


def _rows(features: list | tuple) -> np.ndarray:
    """Rows in lists as an array."""
    try:
        return np.array(features)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(
            f"features are a {type(features).__name__} that makes no array ({error}): give every "
            "row as many numbers, NaN where one is missing"
        ) from error


def _exact(features: np.ndarray) -> np.ndarray:
    """Integers in double precision where single precision would not tell them apart."""
    if features.dtype.kind not in "iu" or features.dtype.itemsize < 4:
        return features
    least, most = (of(0).reshape(-1) for of in (features.min, features.max))
    largest = np.maximum(np.abs(least.astype(np.float64)), np.abs(most.astype(np.float64)))
    if not (largest > _SINGLE).any():
        return features
    spread = np.array([int(high) - int(low) for low, high in zip(least, most, strict=True)])
    blurred = (spread > 0) & (np.spacing(largest) > _BLUR * spread)
    if blurred.any():
        column = int(blurred.argmax())
        raise ValueError(
            f"feature column {column} holds integers around {largest[column]:.3g} that differ by "
            f"{spread[column]} at most, which floating-point numbers do not tell apart: subtract "
            f"the least, {least[column]}, from them"
        )
    return features.astype(np.float64)


def _num_missing(features: np.ndarray | Tensor, columns: Columns | None) -> int:
    """How many numbers are NaN; a ``ValueError`` about those whose squares are infinite."""
    if isinstance(features, Tensor):
        has_fractions = features.is_floating_point()
    else:
        has_fractions = features.dtype.kind == "f"
    if not has_fractions:
        return 0
    of_dtype: Any = torch.finfo if isinstance(features, Tensor) else np.finfo
    largest = min(_LARGEST, float(of_dtype(features.dtype).max))
    first: tuple[int, ...] = ()
    number = missing = 0
    step = max(1, _CHUNK_ELEMENTS // int(np.prod(features.shape[1:])))
    for start in range(0, len(features), step):
        part = features[start : start + step]
        if isinstance(part, Tensor):
            empty, bad = part.isnan().cpu().numpy(), (part.abs() > largest).cpu().numpy()
        else:
            empty, bad = np.isnan(part), np.abs(part) > largest
        missing += int(empty.sum())
        if not first and bad.any():
            row, *column = (int(at) for at in np.unravel_index(bad.argmax(), bad.shape))
            first = (start + row, *column)
        number += int(bad.sum())
    if first:
        raise ValueError(_about_number(first, float(features[first]), number, columns))
    return missing


def _about_number(
    place: tuple[int, ...], value: float, number: int, columns: Columns | None
) -> str:
    """What is wrong with the first of so many numbers that are too large."""
    row, *column = place
    names = None if columns is None else columns.names
    name = ", ".join(map(str, column)) if names is None else show(names[column[0]])
    what = "infinite"
    if math.isfinite(value):
        what = f"{value:g}, beyond {_LARGEST:g}, which needs a larger unit,"
    return (
        f"features row {row}{', column ' if column else ''}{name} is {what} "
        f"({count(number, 'such value')} in all); fill in, leave empty (NaN) or drop"
    )
