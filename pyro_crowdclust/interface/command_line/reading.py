"""Reads tables from files. Ids are text here, so that they are written as they were read."""

from __future__ import annotations

import csv
import itertools
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pyro_crowdclust.data.answer_tables import COLUMNS, answers_with
from pyro_crowdclust.data.tables import ID_NAMES, LINE, item_positions, refuse_doubled
from pyro_crowdclust.errors import count, did_you_mean, plain_name, show, warn
from pyro_crowdclust.exchange import picture_frame
from pyro_crowdclust.files.csv_files import stated_separator
from pyro_crowdclust.files.opening import encoding_of, opened

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_MISSING = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "-nan", "null", "NULL", "None", "<NA>"]
# The beginning of the name that pandas gives to a column without one.
_UNNAMED = "Unnamed: "
# The row that an error is about.
_FEATURE_ROW = re.compile(r"features row (\d+)")
# The layout of a table is inferred from this many rows.
_SAMPLE_ROWS = 50


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
    if _kind(path, [".npy", *_SEPARATORS, ".parquet"]) == ".npy":
        if id_column is not None or ignore:
            raise ValueError(
                f"{path} is an array, which has no columns to name: leave out --id-column and "
                "--ignore"
            )
        values = _opened(path, lambda: _load_array(path))
        if values.ndim == 0:
            raise ValueError(f"{path} holds a single number: save one row of numbers per item")
        _refuse_empty(path, values)
        return FeatureTable(values, _row_numbers(len(values)), None)
    head = _read(path, rows=50)
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
    table = _read(path, text=[] if id_column is None else [id_column])
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
    table = _read(path, text=id_columns, with_lines=True)
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
    if _kind(path, [".npy", *_SEPARATORS, ".parquet"]) == ".npy":
        pictures = read_feature_file(path)
        _check_numbered(path, pictures.ids, asked, "save a table with a column 'item'")
        return _naming(path, lambda: picture_frame(np.asarray(pictures.values), pictures.ids))
    head = _read(path, rows=50)
    table = _read(path, text=list(head.columns)).astype(object)
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
        if path is None or found is None or path.suffix.lower() not in _SEPARATORS:
            raise
        lines = _read(path, with_lines=True).index
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
    if _is_index(first) or not is_number or _are_padded(_read(path, rows=50, text=[first])[first]):
        return first
    return None


def _are_padded(column: pd.Series) -> bool:
    """Whether whole numbers all have the same number of digits, some with leading zeros."""
    cells = column.astype(str)
    same_length = cells.str.len().nunique() == 1 and cells.str.fullmatch(r"\d{2,}").all()
    return bool(same_length and cells.is_unique and cells.str.startswith("0").any())


def _is_index(name: Any) -> bool:
    """Whether a first column has no name, like an index that pandas or R wrote."""
    return str(name).startswith(_UNNAMED)


def _as_text(column: pd.Series) -> pd.Series:
    """Ids as text without surrounding spaces; missing ones stay missing."""
    missing = column.isna()
    return column.astype(object).where(missing, column.astype(str).str.strip())


def _row_numbers(count: int) -> pd.Index:
    return pd.Index(map(str, range(count)), dtype=object)


def _kind(path: Path, known: Sequence[str]) -> str:
    suffix = path.suffix.lower()
    if suffix not in known:
        raise ValueError(
            f"{path} does not end in one of {', '.join(known)}: convert it to such a file"
        )
    return suffix


def _read(
    path: Path, *, rows: int | None = None, text: Sequence[str] = (), with_lines: bool = False
) -> pd.DataFrame:
    """A table; columns in ``text`` stay as they are written, only empty cells are missing."""
    kind = _kind(path, [*_SEPARATORS, ".parquet"])
    if kind == ".parquet":
        table = _opened(path, lambda: _read_parquet(path, rows))
        refuse_doubled(f"{path} has", table.columns)
        return table
    encoding = _opened(path, lambda: encoding_of(path))
    options: dict[str, Any] = {"nrows": rows, "skipinitialspace": True, "encoding": encoding}
    options |= _opened(path, lambda: _dialect(path, _SEPARATORS[kind], encoding))
    options |= _opened(path, lambda: _layout(path, options))
    if text:
        # The id "NA" is not a missing value, and "007" is not the number 7.
        columns = _opened(path, lambda: pd.read_csv(path, **options | {"nrows": 0})).columns
        options["dtype"] = dict.fromkeys(text, str)
        options["na_values"] = {name: [""] if name in text else _MISSING for name in columns}
        options["keep_default_na"] = False
    table = _opened(path, lambda: pd.read_csv(path, **options))
    return table.set_axis(_lines(path, options, table.index)) if with_lines else table


def _lines(path: Path, options: Mapping[str, Any], rows: pd.Index) -> pd.Index:
    """The line of the file on which each row begins; ``rows`` if it is not known."""
    first = options.get("skiprows", 0) + 2
    with path.open(encoding=options["encoding"], newline="\n") as file:
        if sum(1 for _ in file) == first - 1 + len(rows):  # no row is empty or has several lines
            return pd.RangeIndex(first, first + len(rows), name=LINE)
    try:
        _, *lines = (line for line, _ in _cells(path, options))
    except csv.Error:  # a cell that is too long for this reader
        return rows
    return pd.Index(lines, name=LINE) if len(lines) == len(rows) else rows


def _cells(path: Path, options: Mapping[str, Any]) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table that are not empty, column names first, and the lines they begin on."""
    skipped = options.get("skiprows", 0)
    with path.open(encoding=options["encoding"], newline="") as file:
        lines = itertools.islice(file, skipped, None)
        reader = csv.reader(lines, delimiter=options["sep"], skipinitialspace=True)
        line = skipped + 1
        for row in reader:
            if row:
                yield line, row
            line = skipped + reader.line_num + 1


def _layout(path: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of ``pandas.read_csv`` where rows hold more values than there are names.

    Either the first column has no name, as in files that R writes, or every row ends in separators.
    In both cases pandas would silently take the first column for an index.
    """
    try:
        cells = (row for _, row in _cells(path, options))
        names, *rows = itertools.islice(cells, _SAMPLE_ROWS)
    except csv.Error:  # a cell that is too long for this reader
        return {}
    names = [name.strip() for name in names]
    # Pandas would silently rename doubled columns, to ``a.1`` for instance.
    refuse_doubled(f"{path} has", filter(None, names))
    number = len(names)
    if not rows or len(rows[0]) <= number:
        return {}
    if not any("".join(row[number:]).strip() for row in rows):
        _refuse_further(path, options, number)
        return {"index_col": False, "usecols": range(number)}
    if number > 1 and all(len(row) == number + 1 for row in rows):
        return {"header": 0, "names": [f"{_UNNAMED}0", *names]}
    raise ValueError(
        f"{path} names {count(number, 'column')} in its first line, but its rows hold "
        f"{len(rows[0])} values: name every column in the first line"
    )


def _refuse_further(path: Path, options: Mapping[str, Any], number: int) -> None:
    """Raise a ``ValueError`` if any row of the file has values in columns without names."""
    for line, row in _cells(path, options):
        if more := "".join(row[number:]).strip():
            raise ValueError(
                f"{path} names {count(number, 'column')} in its first line, but line {line} has "
                f"{show(more)} in a column beyond these: name that column, or empty it"
            )


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


def _dialect(path: Path, separator: str, encoding: str) -> dict[str, Any]:
    """Separator and decimal mark of a table: some programs write semicolons or tabs into .csv.

    Such files may have decimal commas: of both marks, the one under which more columns are numeric
    is taken. Excel takes a first line such as ``sep=;`` for the separator, and so is it here.
    """
    with path.open(encoding=encoding) as file:
        stated = stated_separator(next(file, ""))
    if stated is not None:
        return _likeliest(path, [stated], encoding=encoding, skiprows=1)
    header = pd.read_csv(path, sep=separator, nrows=0, encoding=encoding).columns
    others = [other for other in ";\t" if other in "".join(header)]
    if len(header) > 1 or not others:
        return {"sep": separator}
    return _likeliest(path, others, encoding=encoding)


def _likeliest(path: Path, separators: Sequence[str], **options: Any) -> dict[str, Any]:
    """Of these separators, and of both decimal marks, those under which most is numeric."""
    dialects = [
        {"sep": one, "decimal": mark, **options}
        for one in separators
        for mark in ".,"
        if mark != one
    ]
    return max(dialects, key=lambda dialect: _num_numeric(pd.read_csv(path, nrows=50, **dialect)))


def _num_numeric(table: Any) -> int:
    return sum(map(pd.api.types.is_numeric_dtype, table.dtypes))


def _load_array(path: Path) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (SyntaxError, tokenize.TokenError, EOFError, OverflowError, MemoryError) as error:
        # The header of an array is a Python literal, and numpy parses it as Python.
        raise ValueError(f"its header is damaged ({error})") from error


def _read_parquet(path: Path, rows: int | None) -> pd.DataFrame:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ValueError(
            f"{path} is a parquet file, and reading it needs pyarrow: pip install "
            "'pyro-crowdclust[parquet]', or convert the file to .csv"
        ) from error
    # All rows are read, as the first ones do not show what their index is.
    try:
        table = pyarrow.parquet.read_table(path).to_pandas()
    except TypeError as error:  # of pandas, about its own notes in a damaged file
        raise ValueError(f"cannot read {path}: {error}") from error
    is_numbered = table.index.equals(pd.RangeIndex(len(table)))
    if table.index.nlevels == 1 and table.index.name is None and not is_numbered:
        table.index.name = f"{_UNNAMED}0"
    named = [name for name in table.index.names if name is not None]
    return (table.reset_index(named) if named else table).iloc[:rows]


def _naming(path: Path, do: Callable[[], Any]) -> Any:
    """The result of ``do``, with errors that name the file."""
    try:
        return do()
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _opened(path: Path, read: Callable[[], Any]) -> Any:
    """The result of ``read``, with errors that name the file, those of pandas included."""
    try:
        return opened(path, read)
    except ValueError as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"cannot read {path}: {error}") from error
