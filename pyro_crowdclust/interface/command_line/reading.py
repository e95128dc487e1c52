"""Reads features, answers and ids from files. Ids are text, written as they were read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pyro_crowdclust.data.answer_tables import COLUMNS, answers_with
from pyro_crowdclust.data.tables import ID_NAMES, LINE, item_positions
from pyro_crowdclust.errors import did_you_mean, plain_name, show, warn
from pyro_crowdclust.exchange import picture_frame
from pyro_crowdclust.interface.command_line.table_files import (
    SEPARATORS,
    UNNAMED,
    kind_of,
    read_array_file,
    read_table_file,
)

# The row that an error is about.
_FEATURE_ROW = re.compile(r"features row (\d+)")


@dataclass(frozen=True)
class FeatureTable:
    """Features of items with their ids.

    Attributes
    ----------
    values
        Numbers, one row per item.
    ids
        Ids of the items, as text.
    columns
        Names of the columns of a table; None of an array.
    """

    values: np.ndarray | pd.DataFrame
    ids: pd.Index
    columns: list[str] | None


def read_feature_file(
    path: Path,
    *,
    id_column: str | None = None,
    ignore: Sequence[str] = (),
    usual_ids: str | None = None,
    features: Sequence[str] = (),
) -> FeatureTable:
    """Features from ``.npy``, ``.csv``, ``.tsv`` or ``.parquet``.

    Parameters
    ----------
    path
        The file. An array has one row per item; a table also has a column of ids, or its rows
        are numbered from 0.
    id_column
        Name of the column of ids. Default: a column ``item``, ``id`` or ``item_id``, else the
        first column if it has no name or holds text, such as numbers with leading zeros.
    ignore
        Columns that are not features.
    usual_ids
        Name of the column of ids where ``id_column`` is None and the table has this column.
    features
        Columns that are not taken for ids where ``id_column`` is None.

    Raises
    ------
    ValueError
        If the file cannot be read or a named column is missing.
    """
    if kind_of(path, [".npy", *SEPARATORS, ".parquet"]) == ".npy":
        if id_column is not None or ignore:
            raise ValueError(
                f"{path} is an array, which has no columns to name: leave out --id-column and "
                "--ignore"
            )
        values = read_array_file(path)
        if values.ndim == 0:
            raise ValueError(f"{path} holds a single number: save one row of numbers per item")
        _refuse_empty(path, values)
        return FeatureTable(values, _row_numbers(len(values)), None)
    head = read_table_file(path, rows=50)
    for name in [*ignore, *([id_column] if id_column is not None else [])]:
        if name not in head.columns:
            hint = did_you_mean(name, head.columns)
            raise ValueError(f"{path} has no column '{name}'; it has {list(head.columns)}{hint}")
    _check_names(path, head.columns)
    if answers := answers_with({*head.columns} - {*ignore}):
        columns = ", ".join(COLUMNS[answers][0])
        raise ValueError(
            f"{path} has the columns {columns}, as {answers} do: pass it as --{answers}"
        )
    if id_column is None:
        found = usual_ids if usual_ids in head else _find_ids(path, head.drop(columns=list(ignore)))
        id_column = None if found in features else found
    table = read_table_file(path, text=[] if id_column is None else [id_column])
    _refuse_empty(path, table)
    without = [name for name in ignore if name != id_column]
    if id_column is not None and _is_index(head.columns[0]) and head.columns[0] != id_column:
        without.append(head.columns[0])  # row numbers that the writing program added
    table = table.drop(columns=without)
    if id_column is None:
        ids = _row_numbers(len(table))
    else:
        ids = pd.Index(_as_text(table.pop(id_column)), name=id_column)
        if not table.shape[1]:
            raise ValueError(
                f"{path} has no column of features besides '{id_column}', which holds the ids: "
                "check that columns are separated by commas and named in the first line"
            )
    table.index = ids
    return FeatureTable(table, ids, [str(name) for name in table.columns])


def read_answer_file(path: Path, id_columns: Sequence[str]) -> pd.DataFrame:
    """A table of answers from ``.csv``, ``.tsv`` or ``.parquet``, with these columns as text.

    The index of a table of text says on which line of the file each row begins.

    Raises
    ------
    ValueError
        If the file cannot be read.
    """
    table = read_table_file(path, text=id_columns, with_lines=True)
    for name in id_columns:
        if name in table:
            table[name] = _as_text(table[name])
    return table


def read_shown(path: Path, asked: Iterable[str] = ()) -> pd.DataFrame:
    """What people see of the items: pictures in an array, or the cells of a table as text.

    Parameters
    ----------
    path
        ``.npy`` of shape ``[item, height, width]``, perhaps with a last axis of 3 colours; or a
        table, whose ids are found as in ``read_feature_file``. Its column ``image`` holds URLs, or
        names of files in the folder of the table.
    asked
        Ids of items that are asked about.

    Raises
    ------
    ValueError
        If the file cannot be read or holds no pictures, or if its rows are numbered, as it has no
        ids, but the items that are asked about have other ids.
    """
    if kind_of(path, [".npy", *SEPARATORS, ".parquet"]) == ".npy":
        pictures = read_feature_file(path)
        _check_numbered(path, pictures.ids, asked, "save a table with a column 'item'")
        return _naming(path, lambda: picture_frame(np.asarray(pictures.values), pictures.ids))
    head = read_table_file(path, rows=50)
    table = read_table_file(path, text=list(head.columns)).astype(object)
    name = _find_ids(path, head)
    if name is None:
        table.index = _row_numbers(len(table))
        _check_numbered(path, table.index, asked, "call the column with the ids 'item'")
    else:
        table.index = pd.Index(_as_text(table.pop(name)))
    if "image" in table:
        is_file = table["image"].notna() & ~table["image"].astype(str).str.match(r"\w+:")
        in_folder = [str(path.parent / image) for image in table.loc[is_file, "image"]]
        table.loc[is_file, "image"] = in_folder
    return table


def _check_numbered(path: Path, rows: pd.Index, asked: Iterable[str], remedy: str) -> None:
    """Raise a ``ValueError`` about an item that is no number of a row."""
    others = [item for item in asked if item not in rows]
    if others:
        raise ValueError(
            f"{path} has no ids, so that its rows are numbered from 0 to {len(rows) - 1}, but a "
            f"question is about the item {show(others[0])}: {remedy}"
        )


@contextmanager
def naming_lines(path: Path | None) -> Iterator[None]:
    """Errors about a row of the features name the line of their file."""
    try:
        yield
    except ValueError as error:
        found = _FEATURE_ROW.match(str(error))
        if path is None or found is None or path.suffix.lower() not in SEPARATORS:
            raise
        lines = read_table_file(path, with_lines=True).index
        if lines.name != LINE:
            raise
        line = lines[int(found[1])]
        raise ValueError(f"{path} line {line}{str(error)[found.end() :]}") from error


def labels_by_item(table: pd.DataFrame, path: Path, item_ids: pd.Index | None) -> pd.Series:
    """The column ``label`` of a table, by its column ``item``, which has some of these ids.

    Raises
    ------
    ValueError
        If a column is missing, or an item is unknown.
    """
    for name in ("item", "label"):
        if name not in table:
            hint = did_you_mean(name, table.columns)
            raise ValueError(f"{path} has no column '{name}'; it has {list(table.columns)}{hint}")
    if item_ids is not None:
        item_positions("known", table["item"], item_ids)
    return table.set_index("item")["label"]


def _find_ids(path: Path, head: pd.DataFrame) -> str | None:
    names = {plain_name(name): name for name in head.columns}  # spreadsheets like "ID"
    for name in ID_NAMES:
        if name in names:
            return names[name]
    if not len(head.columns):
        return None
    first = head.columns[0]
    is_number = pd.api.types.is_numeric_dtype(head.dtypes.iloc[0])
    if (
        _is_index(first)
        or not is_number
        or _are_padded(read_table_file(path, rows=50, text=[first])[first])
    ):
        return first
    return None


def _are_padded(column: pd.Series) -> bool:
    """Whether whole numbers all have the same number of digits, some with leading zeros."""
    cells = column.astype(str)
    same_length = cells.str.len().nunique() == 1 and cells.str.fullmatch(r"\d{2,}").all()
    return bool(same_length and cells.is_unique and cells.str.startswith("0").any())


def _is_index(name: Any) -> bool:
    """Whether a first column has no name, like an index that pandas or R wrote."""
    return str(name).startswith(UNNAMED)


def _as_text(column: pd.Series) -> pd.Series:
    """Ids as text without surrounding spaces; missing ones stay missing."""
    missing = column.isna()
    return column.astype(object).where(missing, column.astype(str).str.strip())


def _row_numbers(count: int) -> pd.Index:
    return pd.Index(map(str, range(count)), dtype=object)


def _refuse_empty(path: Path, rows: Any) -> None:
    """Raise a ``ValueError`` if a file has no rows."""
    if not len(rows):
        raise ValueError(f"{path} has no rows: write one for every item")


def _check_names(path: Path, names: pd.Index) -> None:
    """Refuse a first line that is a row of numbers; warn if it may be one."""
    beside_ids = names[1:] if len(names) > 1 else names
    numbers = pd.to_numeric(pd.Series(beside_ids, dtype=str), errors="coerce")
    if numbers.isna().any() or _counts_up(names) or _counts_up(beside_ids):
        return
    some = ", ".join(map(str, names[:3]))
    remedy = "insert a first line with the names of the columns"
    if (numbers % 1 != 0).any():
        raise ValueError(
            f"{path} begins with a row of numbers ({some}, ...), not of names: {remedy}"
        )
    warn(
        f"{path}: the numbers in its first line ({some}, ...) are read as names of columns. If "
        f"they belong to an item, {remedy}, or that item is lost"
    )


def _counts_up(names: pd.Index) -> bool:
    """Whether names are 0, 1, 2, ..., as pandas names the columns of an array."""
    return [*map(str, names)] == [*map(str, range(len(names)))]


def _naming(path: Path, do: Callable[[], Any]) -> Any:
    """The result of ``do``, with errors that name the file."""
    try:
        return do()
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
