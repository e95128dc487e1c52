"""Recognizes what a column of a table holds from its values."""

from __future__ import annotations

import re
from collections.abc import Hashable
from decimal import Decimal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from pyro_crowdclust.data.alike import check_alike
from pyro_crowdclust.errors import show

KINDS = ("real", "count", "binary", "category")

# A column of whole numbers holds counts if the smallest is 0 and their variance over their mean
# lies in this range: hardly less than a Poisson's, and not so much more that it would take dozens
# of clusters to explain it.
_COUNT_DISPERSION = 0.9, 20.0
# A column with more different texts than this, and than half of its cells, holds names and not
# categories.
_MAX_CATEGORIES = 10
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T]\d{1,2}:\d{2}.*)?")
# The marks between the thousands of 1.234,50 or 1 234.50, of which each is before three digits.
_THOUSANDS = re.compile(r"(?<=\d)[.,'’\s](?=\d{3}(?:[.,'’\s]\d{3})*(?:[.,]\d+)?$)")
_WITH_UNIT = re.compile(r"[-+]?\d+([.,]\d+)?\s*[^\W\d_]{1,4}")
# Rows that quick checks look at first.
SAMPLE = 50
# Types of the cells in columns of objects that count as numbers, as in tables from databases.
_NUMBERS = (int, float, Decimal, np.number)
# Types of the cells in columns of categories.
_TEXTS = (str, bool, np.bool_)
# Types of cells that hold many numbers of an item.
_ROWS = (list, tuple, np.ndarray)


# What columns of numbers may hold, for kinds that do not allow every number.
HELD = {"binary": "0 and 1", "count": "counts 0, 1, 2, ..."}


def recognized(
    name: Hashable, column: pd.Series, wanted: str | None
) -> tuple[str, pd.Index | None]:
    """The kind of a column and the values of its codes, None for one that holds numbers.

    ``wanted`` is the kind that the user asked for, if any.
    """
    label, dtype, present = show(name), column.dtype, column.dropna()
    if not len(present) and len(column):
        return "real", None
    if pd.api.types.is_datetime64_any_dtype(dtype):
        raise ValueError(_about_dates(label))
    if pd.api.types.is_timedelta64_dtype(dtype):
        raise ValueError(
            f"feature column {label} holds spans of time: convert them to numbers, such as their "
            "dt.total_seconds(), or drop the column"
        )
    if isinstance(dtype, pd.CategoricalDtype):
        return _kind_of_levels(label, pd.Index(dtype.categories), wanted)
    if pd.api.types.is_bool_dtype(dtype):
        return _kind_of_levels(label, pd.Index([False, True]), wanted)
    if pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype):
        values = present.to_numpy(np.float64)
        kind = wanted or _kind_of_numbers(values, column)
        if kind == "category":
            return kind, _sorted_levels(present)
        check_numbers(label, kind, values)
        return kind, None
    if all(isinstance(value, _NUMBERS) and not isinstance(value, bool) for value in present):
        return recognized(name, pd.to_numeric(column, errors="coerce"), wanted)
    if not _is_text(present):
        raise ValueError(_about_objects(label, present))
    texts = present.astype(str)
    if len(texts) and texts.iloc[:SAMPLE].str.fullmatch(_DATE).all():
        raise ValueError(_about_dates(label))
    levels = _sorted_levels(present)
    if wanted is None:
        _refuse_numbers_and_names(label, levels, texts)
        check_alike(levels, f"feature column {label}:")
    return _kind_of_levels(label, levels, wanted)


def _about_dates(label: str) -> str:
    return (
        f"feature column {label} holds dates: turn what matters about them into a number, such as "
        "an age in years or a month, or drop the column"
    )


def _about_objects(label: str, present: pd.Series) -> str:
    """The message about a column of objects that are neither all numbers nor all texts."""
    texts = [value for value in present if isinstance(value, _TEXTS)]
    others = [value for value in present if not isinstance(value, (*_NUMBERS, *_TEXTS))]
    if not others:
        return (
            f"feature column {label} holds numbers, and {show(texts[0])} among them: make all of "
            "them numbers and leave missing ones empty, or make all texts if it is a category"
        )
    if all(isinstance(value, _ROWS) for value in others):  # as files of embeddings have them
        return (
            f"feature column {label} holds {type(others[0]).__name__} (dtype {present.dtype}): "
            "make a column of every number in a cell, as numpy.stack(frame[name]) does, and add "
            "the other columns to these or pass them as item_ids"
        )
    return (
        f"feature column {label} holds {type(others[0]).__name__} (dtype {present.dtype}): encode "
        "it as numbers or texts, or drop it"
    )


def _is_text(present: pd.Series) -> bool:
    return all(isinstance(value, _TEXTS) for value in present)


def _refuse_numbers_and_names(label: str, levels: pd.Index, texts: pd.Series) -> None:
    # Signs of percent and currencies, and marks in numbers, may be parts of numbers.
    bare = texts.str.strip(" %$€£").str.replace(_THOUSANDS, "", regex=True)
    bare = bare.str.replace(",", ".", n=1, regex=False)
    as_numbers = pd.to_numeric(bare, errors="coerce")
    share = float(as_numbers.notna().mean())
    if share > 0.5:
        odd = texts[as_numbers.isna()]
        example = show(texts.iloc[0] if odd.empty else odd.iloc[0])
        raise ValueError(
            f"feature column {label} holds numbers written as texts, and {example} among them: "
            "convert them to numbers and leave missing ones empty, or say that it is a category "
            "(kinds=, --categories)"
        )
    if len(levels) > max(_MAX_CATEGORIES, len(texts) / 2):
        if texts.str.fullmatch(_WITH_UNIT).mean() > 0.5:
            raise ValueError(
                f"feature column {label} holds numbers with a unit, such as {show(texts.iloc[0])}: "
                "keep the numbers alone, all in one unit"
            )
        raise ValueError(
            f"feature column {label} holds {len(levels)} different texts in {len(texts)} cells, "
            "which looks like names: drop it, or make it the ids of the items; for records, of "
            "which several may name one thing, pass no features, but how alike the texts of pairs "
            "are as likeness="
        )


def _sorted_levels(present: pd.Series) -> pd.Index:
    levels = pd.Index(present.unique(), tupleize_cols=False)
    try:
        return levels.sort_values()
    except TypeError:  # texts beside True and False
        return pd.Index(sorted(levels, key=str), tupleize_cols=False)


def _kind_of_levels(label: str, levels: pd.Index, wanted: str | None) -> tuple[str, pd.Index]:
    kind = wanted or ("binary" if len(levels) == 2 else "category")
    if kind not in ("binary", "category"):
        raise ValueError(
            f"feature column {label} is said to be {kind}, but holds values that are not numbers "
            f"(such as {show(levels[0])}): convert it to numbers, or do not name its kind"
        )
    if kind == "binary" and len(levels) > 2:
        raise ValueError(
            f"feature column {label} is said to be binary, but holds {len(levels)} different "
            "values: say that it is a category"
        )
    return kind, levels


def _kind_of_numbers(values: Float[np.ndarray, " row"], column: pd.Series) -> str:
    distinct = np.unique(values[:SAMPLE])
    if not ((distinct >= 0) & (distinct < 1e6) & (distinct == distinct.round())).all():
        return "real"
    if np.isin(values, (0, 1)).all():
        return "binary" if (values == 0).any() and (values == 1).any() else "real"
    # Measurements that happen to be whole numbers are stored as floats; so are counts with gaps.
    may_count = pd.api.types.is_integer_dtype(column.dtype) or bool(column.isna().any())
    if not may_count or values.min() != 0 or (values != values.round()).any():
        return "real"
    low, high = _COUNT_DISPERSION
    return "count" if low <= values.var() / values.mean() <= high else "real"


def check_numbers(label: str, kind: str, values: Float[np.ndarray, " row"]) -> None:
    """Raise a ``ValueError`` for infinite numbers, and for numbers that do not fit the kind."""
    if np.isinf(values).any():
        raise ValueError(
            f"feature column {label} holds infinite numbers: replace them, leave them empty, or "
            "drop the column"
        )
    odd = are_of_another_kind(kind, values)
    if odd.any():
        raise ValueError(
            f"feature column {label} is said to hold {HELD[kind]}, but holds "
            f"{show(values[int(odd.argmax())])}: say another kind"
        )


def are_of_another_kind(kind: str, values: Float[np.ndarray, " row"]) -> Bool[np.ndarray, " row"]:
    """Which numbers do not fit a column of this kind; a missing number fits every kind.

    Examples
    --------
    >>> are_of_another_kind("count", np.array([2.0, -1.0, 0.5, np.nan])).tolist()
    [False, True, True, False]
    """
    odd = {
        "real": np.zeros(len(values), dtype=bool),
        "binary": (values != 0) & (values != 1),
        "count": (values < 0) | (values != values.round()),
    }[kind]
    return odd & ~np.isnan(values)
