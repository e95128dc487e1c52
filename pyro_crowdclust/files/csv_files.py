"""CSV files that are safe to open in a spreadsheet."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

# A cell that begins with one of these may be run as a formula by a spreadsheet.
_BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def stated_separator(line: str) -> str | None:
    """The separator that a first line such as ``sep=;`` states, which Excel writes and hides.

    Examples
    --------
    >>> stated_separator("sep=;"), stated_separator('"sep=,"'), stated_separator("item;a")
    (';', ',', None)
    """
    found = re.fullmatch(r'"?sep=(.)"?', line.strip("\ufeff\r\n "), re.IGNORECASE)
    return found and found[1]


def write_csv(frame: pd.DataFrame, file: Path | TextIO, *, index: bool = True) -> None:
    """Write a table with its index; texts that a spreadsheet would run begin with an apostrophe.

    Texts that are numbers, such as an id "-3", stay as they are.

    Examples
    --------
    >>> import sys
    >>> table = pd.DataFrame({"worker": ["=1+1", "ann", "-3"], "weight": [-0.5, 2.0, 1.0]})
    >>> write_csv(table, sys.stdout, index=False)
    worker,weight
    '=1+1,-0.5
    ann,2.0
    -3,1.0
    """
    safe = frame.copy()
    for place, kind in enumerate(frame.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            safe.isetitem(place, list(map(_quoted, frame.iloc[:, place])))
    safe.columns = frame.columns.map(_quoted)
    safe.index = frame.index.map(_quoted) if len(frame) else frame.index
    safe.index.name = _quoted(frame.index.name)
    safe.to_csv(file, index=index)


def as_written(cell: str) -> str:
    """A cell without the apostrophe that ``write_csv`` put in front of it.

    Examples
    --------
    >>> as_written("'=1+1"), as_written("'tis")
    ('=1+1', "'tis")
    """
    return cell[1:] if cell[:1] == "'" and cell[1:].startswith(_BEGINS_A_FORMULA) else cell


def _quoted(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_quoted, value))
    if not isinstance(value, str):
        return value
    # pandas does not quote a carriage return, at which other programs begin a new row.
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    is_formula = value.startswith(_BEGINS_A_FORMULA) and not _is_number(value)
    return f"'{text}" if is_formula else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
