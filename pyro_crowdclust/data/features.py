"""Features of items: read from arrays, tensors and data frames, and checked."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import torch
from scipy.sparse import issparse
from torch import Tensor
from torch.utils.data import Dataset

from pyro_crowdclust.data.columns import Columns, columns_of_array
from pyro_crowdclust.data.stored_features import (
    DatasetFeatures,
    IndexedDataset,
    MemmapFeatures,
    StoredFeatures,
)
from pyro_crowdclust.data.tensors import is_dense, what_it_is
from pyro_crowdclust.errors import count, show

# Finite checks read about this many numbers at a time, so that a memory map is never loaded whole.
_CHUNK_ELEMENTS = 2**22
# Smaller memory maps are read like arrays, and stay in memory once they have been.
_IN_MEMORY_BYTES = 2**26
# Sparse tables of more numbers are refused: models hold all of them, zeros included.
_MAX_DENSE = 10**8
# Squares of larger numbers, and sums of these, may overflow.
_MAX_ABSOLUTE = 1e100
# Single precision holds integers up to this one exactly.
_SINGLE = 2**24
# Rounding loses integers where neighbouring floating-point numbers differ by more than this share
# of a column's range.
_BLUR = 1e-3


class ReadFeatures(NamedTuple):
    """Features that were read and checked.

    Attributes
    ----------
    values
        A row of numbers per item, NaN where one is missing.
    columns
        What the columns of a table hold; None for other features, which are real numbers.
    num_missing
        How many numbers are missing.
    """

    values: np.ndarray | Tensor | StoredFeatures
    columns: Columns | None
    num_missing: int


def read_features(
    features: Any, kinds: Mapping[Hashable, str] | None = None, columns: Columns | None = None
) -> ReadFeatures:
    """Read features, with a row per item, or raise a ``ValueError`` that says what is wrong.

    Numbers in memory are checked here, stored ones when they are read; stored ones have no gaps.

    Parameters
    ----------
    features
        What a user passed.
    kinds
        Kinds of some columns, by name or position; those of others are recognized.
    columns
        For new items, what the columns of the fit hold.
    """
    are_new = columns is not None
    features = _opened(features)
    if isinstance(features, pd.DataFrame):
        columns = columns or Columns.of(features, kinds)
        features = columns.encode(features)
    elif columns is not None and any(own is not None for own in columns.levels):
        raise ValueError(
            f"the fit used a table with categories ({columns}), but the features are a "
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
    """Arrays and tensors in memory of their own, and what is on disk as features that stay there.

    What a user later writes into an array must change neither data nor fits.
    """
    if isinstance(features, (list, tuple)):
        return _rows(features)
    if issparse(features):
        return dense(features)
    if isinstance(features, np.ma.MaskedArray):
        return unmasked(features)
    if isinstance(features, Tensor):
        return features.detach().clone()
    if isinstance(features, Dataset):
        # A dataset that cannot be indexed is refused there.
        return DatasetFeatures(cast(IndexedDataset, features))
    if isinstance(features, np.memmap) and features.nbytes > _IN_MEMORY_BYTES:
        return MemmapFeatures(features) if MemmapFeatures.reads(features) else features
    if isinstance(features, np.ndarray) and not isinstance(features, np.memmap):
        return features.copy()
    return features


def unmasked(features: np.ma.MaskedArray) -> np.ndarray:
    """The numbers of a masked array, with NaN where they are masked."""
    return np.ma.filled(features.astype(np.float64), np.nan)


def dense(matrix: Any) -> np.ndarray:
    """All numbers of a sparse matrix or array of scipy, zeros included.

    Raises
    ------
    ValueError
        If there are too many.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> dense(csr_array(np.array([[0.0, 2.0], [1.0, 0.0]])))
    array([[0., 2.],
           [1., 0.]])
    """
    size = math.prod(matrix.shape)
    if size > _MAX_DENSE:
        raise ValueError(
            f"features are a sparse table of shape {matrix.shape}: with all zeros these are "
            f"{size:,} numbers, of at most {_MAX_DENSE:,} that are taken. Reduce the columns first "
            "(sklearn.decomposition.TruncatedSVD), or keep the words of more texts (min_df= of a "
            "vectorizer)"
        )
    return matrix.toarray()


def _checked(features: Any) -> StoredFeatures | Tensor | np.ndarray:
    """The features, or a ``ValueError`` unless they are dense numbers and not empty."""
    if isinstance(features, StoredFeatures):
        is_numeric = features.dtype.kind in "biuf"
    elif isinstance(features, Tensor):
        if not is_dense(features):
            raise ValueError(
                f"features are a tensor that is {what_it_is(features)}, and not dense real "
                "numbers: convert it, for instance with .to_dense() or .dequantize()"
            )
        is_numeric = True
    elif isinstance(features, np.ndarray):
        is_numeric = features.dtype.kind in "biuf"
    else:
        raise ValueError(
            f"features are a {type(features).__name__}; pass an array, a tensor, a data frame or "
            "a dataset (`.to_frame()` of a series, `pandas.read_csv` of a file)"
        )
    if not is_numeric:
        raise ValueError(
            f"features of dtype {features.dtype} are not dense real numbers; convert them, or pass "
            "a data frame, whose columns may also hold texts or categories"
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
            f"features are a {type(features).__name__} that cannot become an array ({error}): give "
            "every row the same number of values, NaN where one is missing"
        ) from error


def _exact(features: np.ndarray) -> np.ndarray:
    """Integers in double precision where single precision would not distinguish them."""
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
            f"{spread[column]} at most, which floating-point numbers cannot distinguish: subtract "
            f"the smallest, {least[column]}, from all of them"
        )
    return features.astype(np.float64)


def _num_missing(features: np.ndarray | Tensor, columns: Columns | None) -> int:
    """How many numbers are NaN; a ``ValueError`` if some are infinite or too large."""
    if isinstance(features, Tensor):
        has_fractions = features.is_floating_point()
    else:
        has_fractions = features.dtype.kind == "f"
    if not has_fractions:
        return 0
    info: Any = torch.finfo if isinstance(features, Tensor) else np.finfo
    largest = min(_MAX_ABSOLUTE, float(info(features.dtype).max))
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
        raise ValueError(_about_too_large(first, float(features[first]), number, columns))
    return missing


def _about_too_large(
    place: tuple[int, ...], value: float, number: int, columns: Columns | None
) -> str:
    """The message about numbers that are too large: the place and value of the first of them."""
    row, *column = place
    names = None if columns is None else columns.names
    name = ", ".join(map(str, column)) if names is None else show(names[column[0]])
    what, remedy = "infinite", "replace it"
    if math.isfinite(value):
        what, remedy = f"{value:g}, beyond {_MAX_ABSOLUTE:g}", "use a larger unit"
    return (
        f"features row {row}{', column ' if column else ''}{name} is {what} "
        f"({count(number, 'such value')} in all); {remedy}, leave it empty (NaN) or drop it"
    )
