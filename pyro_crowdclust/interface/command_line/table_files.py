"""Tables and arrays in files: separators, decimal marks, names of columns, lines."""

from __future__ import annotations

import csv
import itertools
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pyro_crowdclust.data.tables import LINE, refuse_doubled
from pyro_crowdclust.errors import count, show
from pyro_crowdclust.files.csv_files import stated_separator
from pyro_crowdclust.files.opening import encoding_of, opened

SEPARATORS = {".csv": ",", ".tsv": "\t"}
_MISSING = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "-nan", "null", "NULL", "None", "<NA>"]
# The beginning of the name that pandas gives to a column without one.
UNNAMED = "Unnamed: "
# The layout of a table is inferred from this many rows.
_SAMPLE_ROWS = 50


def kind_of(path: Path, known: Sequence[str]) -> str:
    """The ending of a file's name; a ``ValueError`` if it is not known."""
    suffix = path.suffix.lower()
    if suffix not in known:
        raise ValueError(
            f"{path} does not end in one of {', '.join(known)}: convert it to such a file"
        )
    return suffix


def read_table_file(
    path: Path, *, rows: int | None = None, text: Sequence[str] = (), with_lines: bool = False
) -> pd.DataFrame:
    """A table; columns in ``text`` stay as they are written, only empty cells are missing."""
    kind = kind_of(path, [*SEPARATORS, ".parquet"])
    if kind == ".parquet":
        table = _opened(path, lambda: _read_parquet(path, rows))
        refuse_doubled(f"{path} has", table.columns)
        return table
    encoding = _opened(path, lambda: encoding_of(path))
    options: dict[str, Any] = {"nrows": rows, "skipinitialspace": True, "encoding": encoding}
    options |= _opened(path, lambda: _dialect(path, SEPARATORS[kind], encoding))
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
        return {"header": 0, "names": [f"{UNNAMED}0", *names]}
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


def read_array_file(path: Path) -> np.ndarray:
    """The array in a ``.npy`` file, as a memory map."""
    return _opened(path, lambda: _load_array(path))


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
        table.index.name = f"{UNNAMED}0"
    named = [name for name in table.index.names if name is not None]
    return (table.reset_index(named) if named else table).iloc[:rows]


def _opened(path: Path, read: Callable[[], Any]) -> Any:
    """The result of ``read``, with errors that name the file, those of pandas included."""
    try:
        return opened(path, read)
    except ValueError as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"cannot read {path}: {error}") from error
