"""Recognizes tables of labels with a row per item and a column per worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import pandas as pd

# Whether columns share values is judged by this many rows.
_ROWS = 1000


class WideTable(NamedTuple):
    """Which columns of a table look like workers, and code for a table with a row per answer.

    Attributes
    ----------
    workers
        Names of the columns that share values with another one of them.
    code
        pandas code in which the table is called ``table``.
    """

    workers: Sequence[Hashable]
    code: str

    @classmethod
    def of(cls, frame: pd.DataFrame, id_names: Sequence[str]) -> WideTable | None:
        """The columns and the code; None if fewer than two columns look like workers.

        Items are in a column with one of the ``id_names``, else in the only column whose values
        all differ, else in the index.

        Examples
        --------
        >>> table = {"item": [1, 2], "Ann": ["x", "y"], "Bob": ["y", "y"], "note": ["", "dark"]}
        >>> found = WideTable.of(pd.DataFrame(table), ["item"])
        >>> found.workers
        ['Ann', 'Bob']
        >>> found.code  # doctest: +NORMALIZE_WHITESPACE
        "table.drop(columns=['note']).melt('item', var_name='worker',
        value_name='label').dropna()"
        """
        item = _item_column(frame, id_names)
        others = [place for place, name in enumerate(frame.columns) if name != item]
        values = {place: _values(frame.iloc[:_ROWS, place]) for place in others}
        times = Counter(value for own in values.values() for value in own)
        alike = [place for place in others if any(times[value] > 1 for value in values[place])]
        if len(alike) < 2:
            return None
        workers, further = (
            frame.columns[places].tolist() for places in (alike, sorted({*others} - {*alike}))
        )
        code = f"table.drop(columns={further})" if further else "table"
        if item is None:
            code += ".rename_axis('item').reset_index()"
        elif item != "item":
            code += f".rename(columns={{{item!r}: 'item'}})"
        return cls(workers, f"{code}.melt('item', var_name='worker', value_name='label').dropna()")


def _values(column: pd.Series) -> set[Hashable]:
    """The different values of a column; none if they cannot be labels."""
    try:
        return {*column.dropna()}
    except TypeError:  # lists, for example
        return set()


def _item_column(frame: pd.DataFrame, id_names: Sequence[str]) -> Hashable | None:
    """The column that names the items; None if the index does."""
    for name in id_names:
        if name in frame.columns:
            return name
    if not isinstance(frame.index, pd.RangeIndex):
        return None
    differ = [
        name
        for place, name in enumerate(frame.columns)
        if len(_values(frame.iloc[:, place])) == len(frame)
    ]
    return differ[0] if len(differ) == 1 else None
