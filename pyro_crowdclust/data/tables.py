"""Reading the tables that users pass, with the same checks and the same errors for all of them.

Most functions take the name by which the user knows the table (``pairs``, ``labels``), so that an
error can name the table, the row and its index.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Int, Integer
from numpy.typing import ArrayLike
from torch import Tensor

from pyro_crowdclust.data.tensors import numbers_of
from pyro_crowdclust.data.wide_tables import WideTable
from pyro_crowdclust.errors import did_you_mean, listed, plain_name, respelled, show

# Columns with these names hold the ids of the items unless the user names another column.
ID_NAMES = ("item", "id", "item_id")
# Name of an index that says on which line of its file a row stands.
LINE = "line of the file"
# Name of an index that says in which file, and on which line of it, a row stands.
PLACE = "file and line"
_MAX_COMPARED = 10_000
# What to do if "can't tell" is an answer about pairs.
GRADES_REMEDY = (
    """if "can't tell" is an answer like the others, pass the labels from "different" to "same" """
    "as grades="
)


# Tables of what people said.
_ANSWERS = ("labels", "pairs", "placements")


def in_pandas(table: Any) -> Any:
    """A table of another library (polars, pyarrow) as a pandas table; anything else as it is."""
    return table.to_pandas() if hasattr(table, "to_pandas") else table


def refuse_doubled(owner: str, names: Iterable[Hashable]) -> None:
    """Raise a ``ValueError`` if two columns have the same name.

    Examples
    --------
    >>> refuse_doubled("the answers have", ["item", "label", "label"])
    Traceback (most recent call last):
    ValueError: the answers have two columns 'label': rename or drop one of them
    """
    doubled = [name for name, times in Counter(names).items() if times > 1]
    if doubled:
        raise ValueError(f"{owner} two columns {show(doubled[0])}: rename or drop one of them")


def refuse_respelled(owner: str, optional: Iterable[str], names: Iterable[Hashable]) -> None:
    """Raise a ``ValueError`` if a column that may be there is there in another spelling.

    Examples
    --------
    >>> refuse_respelled("pairs have", ["page"], ["left", "right", "page"])
    >>> refuse_respelled("pairs have", ["page"], ["left", "right", "Page"])
    Traceback (most recent call last):
    ValueError: pairs have no column 'page', but 'Page', which would not be read; ...
    """
    names = [*names]
    spellings = {plain_name(name): name for name in names}
    for column in optional:
        like = spellings.get(column, column)
        if column not in names and like != column:
            raise ValueError(
                f"{owner} no column {column!r}, but {like!r}, which would not be read; capitals "
                f"and spaces count: rename it to {column!r}, or drop it"
            )


def read_table(
    table: Any,
    name: str,
    required: Sequence[str],
    optional: Sequence[str] = (),
    may_lack: Sequence[str] = (),
) -> pd.DataFrame:
    """The required columns of a table, and the optional ones it has, without missing values.

    Parameters
    ----------
    table
        A data frame, of pandas or with ``to_pandas``, or whatever ``pandas.DataFrame`` accepts.
    name
        What the user calls the table.
    required, optional
        Names of columns; others are dropped.
    may_lack
        Columns in which values may be missing.

    Raises
    ------
    ValueError
        If ``table`` is not a table, lacks or repeats a column, has no rows or lacks a value.

    Examples
    --------
    >>> read_table({"left": [1], "right": [2], "note": ["a"]}, "links", ["left", "right"])
       left  right
    0     1      2
    """
    frame = as_frame(table, name)
    columns = _columns_of(frame, name, required, optional)
    if len(frame) == 0:
        start = ""
        if name in _ANSWERS:
            start = ". To start a project, let random workers answer about some random items"
        raise ValueError(f"{name} have no rows; leave {name} out if there are none{start}")
    for column in columns:
        if column in may_lack:
            continue
        remedy = "drop the column or the row" if column in optional else "drop the row"
        if (name, column) == ("pairs", "page"):
            remedy = "give every such answer a page of its own"
        missing = frame[column].isna().to_numpy(bool) | are_blank(frame[column])
        if missing.any():
            place = where(name, frame.index, missing)
            raise ValueError(f"{place}: {column} is missing; fill it in, or {remedy}")
    return frame[columns]


def as_frame(table: Any, name: str) -> pd.DataFrame:
    """A table as a data frame, whatever its columns are.

    Raises
    ------
    ValueError
        If ``table`` is not a table.

    Examples
    --------
    >>> as_frame({"item": ["ant"]}, "questions")
      item
    0  ant
    """
    if isinstance(table, Mapping):
        table = {
            column: numbers_of(values, f"{name} column {show(column)}")
            if isinstance(values, Tensor)
            else values
            for column, values in table.items()
        }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # pandas still pads rows of unequal length, and warns
            return pd.DataFrame(in_pandas(table))
    except Exception as error:  # pandas raises errors of many kinds for malformed input
        raise ValueError(
            f"{name} are not a table but {type(table).__name__} ({error}); pass a data frame "
            "(pandas.read_csv of a file)"
        ) from error


def _columns_of(
    frame: pd.DataFrame, name: str, required: Sequence[str], optional: Sequence[str]
) -> list[str]:
    """The required columns and the optional ones that were found, each of them once."""
    found = frame.columns.tolist()
    # Names of other columns may be of any type, even one that cannot be compared.
    times = Counter(column for column in found if isinstance(column, str))
    missing = [column for column in required if not times[column]]
    if missing:
        *others, last = map(repr, missing)
        names = f"{', '.join(others)} or {last}" if others else last
        remedy = _remedy(missing, required, optional, frame, {*times})
        raise ValueError(f"{name} have no column {names} (columns: {found}); {remedy}")
    refuse_respelled(f"{name} have", optional, times)
    columns = [*required, *(column for column in optional if times[column])]
    for column in columns:
        if times[column] > 1:
            raise ValueError(
                f"{name} have {times[column]} columns '{column}' (columns: {found}); rename or "
                "drop columns so that there is one"
            )
    return columns


def _remedy(
    missing: list[str],
    required: Sequence[str],
    optional: Sequence[str],
    frame: pd.DataFrame,
    found: set[str],
) -> str:
    """What to do about required columns that are missing from a table with these names."""
    if hint := respelled(missing, found - {*required}):
        return hint
    # pandas numbers the columns of a table without names; each of them may be a worker.
    are_unnamed = frame.columns.tolist() == [*range(frame.shape[1])]
    if [*required] == ["item", "worker", "label"] and {"worker", "label"} <= {*missing}:
        wide = WideTable.of(frame, ID_NAMES)
        if wide is not None and not (are_unnamed and frame.shape[1] == len(required)):
            return (
                f"rename columns, or, if {listed(wide.workers)} are workers, make a row of every "
                f"answer: {wide.code}"
            )
    if are_unnamed and frame.shape[1] == 1 and {"left", "right"} <= {*missing}:
        return "a label of every item is not an answer about a pair: pass known labels as known="
    if are_unnamed:
        return f"name the columns: pandas.DataFrame(rows, columns={[*required]})"
    if {"left", "right"} <= {*missing} and "item" in found:
        other = "placements" if "group" in found else "labels"
        return f"answers about single items are {other}, not pairs: pass the table as {other}"
    if hint := did_you_mean(missing[0], found - {*required, *optional}):
        return f"rename columns so that there is one{hint}"
    if missing == ["worker"]:
        return "add it, with the same name in every row if nobody knows who answered"
    return "rename columns, or add them"


def reject(name: str, column: pd.Series, bad: ArrayLike, reason: str) -> None:
    """Raise a ``ValueError`` about the first of the ``bad`` rows of a column, if there is one."""
    rows = np.asarray(bad, dtype=bool)
    if rows.any():
        value = show(column.iloc[int(rows.argmax())])
        raise ValueError(f"{where(name, column.index, rows)}: {column.name} is {value}, {reason}")


def reject_self_pairs(name: str, left: pd.Series, is_one_item: ArrayLike) -> None:
    """Raise a ``ValueError`` about the first pair whose two items are one."""
    reject(name, left, is_one_item, "an item paired with itself; drop the row")


def where(name: str, index: pd.Index, bad: np.ndarray) -> str:
    """The beginning of a message: the first of the ``bad`` rows, and how many there are.

    Examples
    --------
    >>> where("pairs", pd.Index(["a", "b", "c"]), np.array([False, True, True]))
    "pairs row 1 (index 'b', 2 such rows)"
    >>> where("pairs", pd.Index([2, 3, 5], name=LINE), np.array([False, False, True]))
    'pairs line 5'
    """
    row, number = int(bad.argmax()), int(bad.sum())
    many = [f"{number} such rows"] if number > 1 else []
    if index.name == PLACE:
        return f"{index[row]}" + "".join(f" ({one})" for one in many)
    if index.name == LINE:
        return f"{name} line {index[row]}" + "".join(f" ({one})" for one in many)
    return f"{name} row {row} ({', '.join([f'index {show(index[row])}', *many])})"


def item_positions(name: str, column: pd.Series, item_ids: pd.Index) -> Int[Tensor, " row"]:
    """Positions of the items that a column of a table names.

    Raises
    ------
    ValueError
        Naming the first row whose item is unknown.
    """
    if _is_integer(column) and column.dtype == item_ids.dtype and _is_run(item_ids):
        positions = _offsets(column.to_numpy(), int(item_ids[0]))
        bad = (positions < 0) | (positions >= len(item_ids))
    else:
        wanted = to_index(column, f"{name} column '{column.name}'")
        positions = item_ids.get_indexer(wanted).astype(np.int64)
        bad = positions < 0
    if bad.any():
        reject(name, column, bad, unknown(item_ids, column.iloc[int(bad.argmax())]))
    return torch.from_numpy(positions)


def are_among(ids: pd.Series | pd.Index, others: pd.Series | pd.Index) -> Bool[np.ndarray, " row"]:
    """Which ids are among others, which may be tuples where these are texts.

    Examples
    --------
    >>> are_among(pd.Series(["a", "b"]), pd.Series([("a", 1), "b"]))
    array([False,  True])
    """
    return np.asarray(ids.astype(object).isin(others))


def codes_and_ids(column: pd.Series, name: str) -> tuple[Int[Tensor, " row"], pd.Index]:
    """Codes 0, 1, ... of the values and the value of each code, sorted if they can be."""
    if _is_integer(column) and len(column):
        values = column.to_numpy()
        lowest, highest = int(values.min()), int(values.max())
        if highest - lowest < 2 * len(values):
            return _codes_of_near_integers(values, lowest)
    index = to_index(column, f"{name} column '{column.name}'")
    codes, uniques = pd.factorize(index)
    ids = pd.Index(uniques, tupleize_cols=False)
    try:
        order = np.asarray(ids.argsort())
    except (TypeError, ValueError, RuntimeError):  # of values that cannot be compared
        order = np.arange(len(ids))
    return torch.from_numpy(np.argsort(order)[codes]), ids[order]


def _codes_of_near_integers(
    values: Integer[np.ndarray, " row"], lowest: int
) -> tuple[Int[Tensor, " row"], pd.Index]:
    """The same for integers close to each other: a lookup table is faster than hashing."""
    codes = _offsets(values, lowest)
    found = np.zeros(int(codes.max()) + 1, dtype=bool)
    found[codes] = True
    ids = np.flatnonzero(found).astype(values.dtype) + values.dtype.type(lowest)
    if not found.all():
        codes = (np.cumsum(found) - 1)[codes]
    return torch.from_numpy(codes), pd.Index(ids)


def _offsets(values: Integer[np.ndarray, " row"], first: int) -> Int[np.ndarray, " row"]:
    """``values - first`` in 64 bits, as it may overflow in a narrower type."""
    # Unsigned 64-bit integers wrap around twice, which leaves the difference right.
    return values.astype(np.int64, copy=False) - np.array(first).astype(np.int64)


def _is_integer(column: pd.Series) -> bool:
    return isinstance(column.dtype, np.dtype) and column.dtype.kind in "iu"


def _is_run(ids: pd.Index) -> bool:
    """Whether ids, integers that do not repeat, are each one more than the one before."""
    spanned = int(ids[-1]) - int(ids[0]) + 1 if len(ids) else -1
    return spanned == len(ids) and ids.is_monotonic_increasing


def to_index(ids: Any, name: str) -> pd.Index:
    """Ids as a flat index of plain values: no categories, no levels."""
    if isinstance(ids, pd.RangeIndex):
        return ids
    if isinstance(ids, pd.MultiIndex):
        return ids.to_flat_index()
    ids = numbers_of(ids, name) if isinstance(ids, Tensor) else ids
    is_one = not isinstance(ids, Iterable) or isinstance(ids, (str, bytes))
    if is_one or getattr(ids, "ndim", 1) == 0:
        raise ValueError(
            f"{name} must be a flat list of strings or integers, but is {show(ids)}: pass a list, "
            "even for a single one"
        )
    if isinstance(ids, (set, frozenset)):
        raise ValueError(f"{name} is a set, which has no order: pass a list, such as sorted(ids)")
    try:
        ids = ids if isinstance(ids, (pd.Index, pd.Series)) else pd.Index(ids, tupleize_cols=False)
        index = pd.Index(ids.to_numpy(), name=ids.name, tupleize_cols=False)
        if index.dtype == object:
            set(index)  # raises for an id that is not hashable
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a flat list of strings or integers ({error})") from error
    return index


def is_one_id(ids: Any, item_ids: pd.Index) -> bool:
    """Whether this is the id of one item and not several ids, for what may be either.

    Examples
    --------
    >>> [is_one_id(one, pd.Index(["ant", "bee"])) for one in ("ant", 3, ["ant"], pd.array(["ant"]))]
    [True, True, False, False]
    >>> is_one_id(("ant", 1), pd.Index([("ant", 1), ("bee", 1)], tupleize_cols=False))
    True
    """
    if not isinstance(ids, Iterable) or isinstance(ids, (str, bytes)):
        return True
    try:
        return ids in item_ids
    except TypeError:  # it cannot be hashed
        return False


def unknown(item_ids: pd.Index, wanted: Any, remedy: str = "") -> str:
    """The end of a message: the id is not among those of the items, and what to do."""
    # Among very many ids, finding the most similar one would take seconds.
    hint = did_you_mean(wanted, item_ids) if len(item_ids) <= _MAX_COMPARED else ""
    # The ids of a sliced table are a range, too, but they are not positions.
    if isinstance(item_ids, pd.RangeIndex) and item_ids.equals(pd.RangeIndex(len(item_ids))):
        hint = hint if isinstance(wanted, str) else ""  # such as "7" for 7
        remedy = remedy or "pass item_ids"
        return f"not a position from 0 to {len(item_ids) - 1}; correct it or {remedy}{hint}"
    some = ", ".join(show(known) for known in item_ids[:3])
    remedy = remedy or "drop the row"
    return f"not among the item ids (such as {some}); correct it or {remedy}{hint}"


def are_blank(column: pd.Series) -> Bool[np.ndarray, " row"]:
    """Which cells hold an empty or blank text, as empty cells may in tables not read from files.

    Examples
    --------
    >>> are_blank(pd.Series(["a", "", " ", 3, None])).tolist()
    [False, True, True, False, False]
    """
    if pd.api.types.is_numeric_dtype(column.dtype):
        return np.zeros(len(column), dtype=bool)
    return np.array([isinstance(one, str) and not one.strip() for one in column], dtype=bool)
