"""Features of items: read from arrays, tensors and data frames, and checked."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.utils.data import Dataset

from pyro_crowdclust.data.stored_features import (
    DatasetFeatures,
    IndexedDataset,
    MemmapFeatures,
    StoredFeatures,
)
from pyro_crowdclust.data.tables import count, is_dense, show, what_it_is
from pyro_crowdclust.errors import did_you_mean

# Finite checks read about this many numbers at a time, so that a memory map is never loaded whole.
_CHUNK_ELEMENTS = 2**22
# Smaller memory maps are read like arrays, and stay in memory once they have been.
_IN_MEMORY_BYTES = 2**26


def feature_names(features: Any) -> pd.Index | None:
    """Names of the columns of a data frame; None where columns are told by their order.

    Raises
    ------
    ValueError
        If two columns have the same name.
    """
    if not isinstance(features, pd.DataFrame):
        return None
    names = pd.Index(features.columns.tolist(), tupleize_cols=False)
    if not all(isinstance(name, str) for name in names):
        return None
    if names.has_duplicates:
        name = show(names[int(names.duplicated().argmax())])
        raise ValueError(f"features have two columns {name}: rename or drop one")
    return names


def in_order(features: Any, names: pd.Index | None) -> Any:
    """The columns of these names, where both the fit's features and these have names.

    Raises
    ------
    ValueError
        Naming the columns that are missing.

    Examples
    --------
    >>> frame = pd.DataFrame({"b": [1], "note": [0], "a": [2]})
    >>> in_order(frame, pd.Index(["a", "b"])).columns.tolist()
    ['a', 'b']
    """
    own = feature_names(features)
    if names is None or own is None:
        return features
    missing = names.difference(own, sort=False).tolist()
    if missing:
        hint = did_you_mean(missing[0], own.difference(names, sort=False))
        raise ValueError(
            f"the features lack {count(len(missing), 'column')} that the fit was on: "
            f"{', '.join(map(show, missing[:5]))}{', ...' * (len(missing) > 5)}; they have "
            f"{', '.join(map(show, own[:8]))}{', ...' * (len(own) > 8)}{hint}"
        )
    return features[names.tolist()]


def read_features(features: Any) -> np.ndarray | Tensor | StoredFeatures:
    """Features as they are read, with a row per item; a ``ValueError`` if they are not.

    Numbers in memory are checked here, stored ones when they are read.
    """
    if isinstance(features, Dataset):
        # A dataset that cannot be indexed is refused there.
        features = DatasetFeatures(cast(IndexedDataset, features))
    elif isinstance(features, np.memmap) and features.nbytes > _IN_MEMORY_BYTES:
        features = MemmapFeatures(features) if MemmapFeatures.reads(features) else features
    columns = None
    if isinstance(features, pd.DataFrame):
        columns, dtypes = features.columns, features.dtypes
        for name, dtype in dtypes.items():
            if not pd.api.types.is_numeric_dtype(dtype):
                raise ValueError(
                    f"feature column {show(name)} is not numeric (dtype {dtype}); encode it as "
                    "numbers or drop it"
                )
        # pandas' own dtypes mark missing values with NA, which would make an array of objects.
        has_own = any(isinstance(dtype, pd.api.extensions.ExtensionDtype) for dtype in dtypes)
        features = (
            features.to_numpy(np.float64, na_value=np.nan) if has_own else features.to_numpy()
        )
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
            "a dataset (`.toarray()` of a sparse matrix, `.to_frame()` of a series)"
        )
    if not is_numeric:
        raise ValueError(
            f"features of dtype {features.dtype} are not dense real numbers; convert them"
        )
    if features.ndim == 0 or 0 in features.shape:
        raise ValueError(
            f"features have shape {tuple(features.shape)}; pass at least one row, and at least one "
            "number per row"
        )
    if not isinstance(features, StoredFeatures):
        _check_finite(features, columns)
    return features


def _check_finite(features: np.ndarray | Tensor, columns: pd.Index | None) -> None:
    if isinstance(features, Tensor):
        has_fractions = features.is_floating_point()
    else:
        has_fractions = features.dtype.kind == "f"
    if not has_fractions:
        return
    first: tuple[int, ...] = ()
    number = 0
    step = max(1, _CHUNK_ELEMENTS // int(np.prod(features.shape[1:])))
    for start in range(0, len(features), step):
        chunk = features[start : start + step]
        if isinstance(chunk, Tensor):
            bad = ~torch.isfinite(chunk).cpu().numpy()
        else:
            bad = ~np.isfinite(chunk)
        if not first and bad.any():
            row, *column = (int(at) for at in np.unravel_index(bad.argmax(), bad.shape))
            first = (start + row, *column)
        number += int(bad.sum())
    if first:
        row, *column = first
        name = ", ".join(map(str, column)) if columns is None else show(columns[column[0]])
        raise ValueError(
            f"features row {row}{', column ' if column else ''}{name} is NaN or infinite "
            f"({count(number, 'such value')} in all); fill in or drop"
        )
