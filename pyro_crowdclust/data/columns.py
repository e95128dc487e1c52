"""What the columns of a table hold: recognized from their values, and applied to new tables.

A table becomes numbers: 1 and 0 for yes and no, the codes 0, 1, ... of categories, and NaN where a
cell is empty, or holds a blank text. The kinds of the columns are kept with the data, so that a
table of new items is read in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Real
from torch import Tensor

from pyro_crowdclust.data.column_kinds import (
    HELD,
    KINDS,
    SAMPLE,
    are_of_another_kind,
    check_numbers,
    recognized,
)
from pyro_crowdclust.data.tables import ID_NAMES, are_blank, refuse_doubled, where
from pyro_crowdclust.errors import count, did_you_mean, listed, show, warn

# In a table of at most so many rows, a feature may count up by chance.
_FEW_ROWS = 10
# Names of columns, in lower case, that number the rows, as programs write them to files ...
_ROW_NAMES = ("rownames", "row_names", "rowname", "row", "index", "unnamed: 0")
# ... and the ends of names that hold ids.
_ID = re.compile(r"[_ .-]id$|[a-z](Id|ID)$", re.ASCII)


@dataclass(frozen=True)
class Columns:
    """Names of columns, what each holds, and the values that its codes stand for.

    Attributes
    ----------
    names
        Names of the columns; None where columns are identified by their positions.
    kinds
        Kind of each column: ``"real"``, ``"count"``, ``"binary"`` (yes or no) or ``"category"``.
    levels
        The value of every code of a column, in order; None for columns that hold numbers.

    Examples
    --------
    >>> frame = pd.DataFrame(
    ...     {"age": [31.5, 52, None], "smokes": [True, False, True], "town": ["Rome", "Bari", None]}
    ... )
    >>> columns = Columns.of(frame)
    >>> columns.kinds
    ('real', 'binary', 'binary')
    >>> columns.encode(frame)
    array([[31.5,  1. ,  1. ],
           [52. ,  0. ,  0. ],
           [ nan,  1. ,  nan]])
    """

    names: pd.Index | None
    kinds: tuple[str, ...]
    levels: tuple[pd.Index | None, ...]

    def __len__(self) -> int:
        return len(self.kinds)

    @classmethod
    def of(cls, frame: pd.DataFrame, kinds: Mapping[Hashable, str] | None = None) -> Columns:
        """Columns of a data frame, recognized where ``kinds`` does not say what they hold.

        Raises
        ------
        ValueError
            For a column name that occurs twice, or that ``kinds`` has but the table has not; for a
            kind that does not exist or does not fit the values; for dates, texts that are names
            rather than categories, and cells that are neither numbers nor texts.

        Warns
        -----
        UserWarning
            Where columns are empty: in a table with column names they are left out, in others they
            count as missing features. Where columns look like ids.
        """
        frame = _without_blanks(frame)
        names, kinds = _names(frame), dict(kinds or {})
        labels = frame.columns.tolist()
        for name, kind in kinds.items():
            if name not in labels:
                raise ValueError(
                    f"kinds name the column {show(name)}, which the features do not have"
                    f"{did_you_mean(name, labels)}"
                )
            if kind not in KINDS:
                raise ValueError(
                    f"kinds say that column {show(name)} holds {show(kind)}, but a kind must be "
                    f"one of {', '.join(KINDS)}{did_you_mean(kind, KINDS)}"
                )
        if names is not None:
            full = np.flatnonzero(np.asarray(frame.notna()).any(0))
            if 0 < len(full) < len(names):
                empty = names.delete(full)
                warn(
                    f"{count(len(empty), 'feature column')} left out, as all cells are empty: "
                    f"{listed(empty)}"
                )
                names, frame = names[full], frame.iloc[:, full]
            _warn_of_numbered_rows(frame, kinds)
        read = _all_recognized(frame, kinds)
        return cls(names, tuple(kind for kind, _ in read), tuple(levels for _, levels in read))

    @classmethod
    def of_numbers(cls, count: int) -> Columns:
        """A number of columns of real numbers, identified by their positions."""
        return cls(None, ("real",) * count, (None,) * count)

    def matched(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The columns of a table that these are, in the order that these have.

        If these have no names, they are called 0, 1, 2, ... A table without names is returned as it
        is, and so is one with other names if these have none.

        Raises
        ------
        ValueError
            Naming the columns that are missing.
        """
        own, names = _names(frame), pd.Index([str(label) for label in self.labels()])
        if own is None or (self.names is None and {*own} != {*names}):
            return frame
        missing = names.difference(own, sort=False).tolist()
        if missing:
            hint = did_you_mean(missing[0], own.difference(names, sort=False))
            raise ValueError(
                f"the features lack {count(len(missing), 'column')} that the fit used: "
                f"{listed(missing)}; they have {listed(own, 8)}{hint}"
            )
        return frame.iloc[:, own.get_indexer(names)]

    def encode(self, frame: pd.DataFrame) -> Real[np.ndarray, "row column"]:
        """The table as numbers, NaN where a cell is empty.

        Raises
        ------
        ValueError
            If the number of columns differs, or a cell is not a number in a column that held only
            numbers in the fit.

        Warns
        -----
        UserWarning
            Where a cell holds a category that no item of the fit had, or a number that its kind of
            column cannot hold, such as 2 in a column of 0 and 1: it counts as empty.
        """
        frame = _without_blanks(self.matched(frame))
        if frame.shape[1] != len(self):
            raise ValueError(
                f"the table has {count(frame.shape[1], 'column')}, but that of the fit had "
                f"{len(self)}: pass the same columns"
            )
        if all(kind == "real" for kind in self.kinds) and _is_plain(frame):
            return frame.to_numpy(copy=True)  # in its own precision, and not the user's memory
        encoded = np.empty(frame.shape, dtype=np.float64)
        for place, levels in enumerate(self.levels):
            column = frame.iloc[:, place]
            if levels is None:
                encoded[:, place] = _numbers(column)
            else:
                encoded[:, place] = _codes(column, levels)
        self._drop_other_kinds(frame, encoded)
        return encoded

    def _drop_other_kinds(
        self, frame: pd.DataFrame, encoded: Float[np.ndarray, "row column"]
    ) -> None:
        """Empty the cells whose numbers are not of their column's kind, with one warning."""
        odd = {
            place: cells
            for place, (kind, levels) in enumerate(zip(self.kinds, self.levels, strict=True))
            if levels is None and (cells := are_of_another_kind(kind, encoded[:, place])).any()
        }
        if not odd:
            return
        place, cells = next(iter(odd.items()))
        number = sum(int(one.sum()) for one in odd.values())
        others = [frame.columns[one] for one in odd if one != place]
        warn(
            f"{where('features', frame.index, cells)}: {frame.columns[place]} is "
            f"{show(encoded[int(cells.argmax()), place])}, but those of the fit were "
            f"{HELD[self.kinds[place]]}: {count(number, 'such cell')} treated as empty"
            + (f", also in {listed(others)}" if others else "")
            + "; correct them, or fit anew with another kind, such as kinds={name: 'count'}"
        )
        for one, cells in odd.items():
            encoded[cells, one] = np.nan

    def table(self) -> pd.DataFrame:
        """One row per column: its kind, and what its codes stand for.

        Examples
        --------
        >>> towns = pd.DataFrame({"town": ["Rome", "Bari", "Rome", "Lecce"]})
        >>> Columns.of(towns).table().loc["town"].tolist()
        ['category', 'Bari, Lecce, Rome']
        """
        levels = ["" if own is None else ", ".join(map(str, own)) for own in self.levels]
        index = pd.RangeIndex(len(self)) if self.names is None else self.names
        return pd.DataFrame({"kind": self.kinds, "levels": levels}, index.rename("column"))

    def labels(self) -> list[Hashable]:
        """Names of the columns, or their positions."""
        return list(range(len(self))) if self.names is None else self.names.tolist()

    def of_kind(self, kind: str) -> list[int]:
        """Positions of the columns of a kind."""
        return [place for place, own in enumerate(self.kinds) if own == kind]

    def __str__(self) -> str:
        found = [(kind, len(self.of_kind(kind))) for kind in KINDS]
        return ", ".join(f"{number} {kind}" for kind, number in found if number)


def _names_rows(name: str) -> bool:
    """Whether a column of this name holds ids, or the numbers of rows in a file.

    Examples
    --------
    >>> [_names_rows(name) for name in ("ID", "patient_id", "userId", "Unnamed: 0", "humid")]
    [True, True, True, True, False]
    """
    return name.lower() in (*ID_NAMES, *_ROW_NAMES) or _ID.search(name) is not None


def _warn_of_numbered_rows(frame: pd.DataFrame, kinds: Mapping[Hashable, str]) -> None:
    """Warn of columns that hold ids, judging by their names or consecutive values."""
    for name, column in frame.items():
        whole = pd.api.types.is_integer_dtype(column.dtype) and not column.isna().any()
        if name in kinds or not whole or len(frame) <= _FEW_ROWS:
            continue
        steps = np.diff(column.to_numpy(np.int64))
        named = _names_rows(str(name)) and column.is_unique
        if named or (steps == 1).all():
            warn(
                f"feature column {show(name)} looks like ids of the rows, but is used as a "
                "feature: make it the index (set_index, --id-column), or drop it; if it is a "
                "feature, say what it holds (kinds=, --counts)"
            )


def _all_recognized(
    frame: pd.DataFrame, kinds: Mapping[Hashable, str]
) -> list[tuple[str, pd.Index | None]]:
    """Kinds and levels of all columns, or an error about the first that names the others."""
    read, errors = [], {}
    for place, name in enumerate(frame.columns):
        try:
            read.append(recognized(name, frame.iloc[:, place], kinds.get(name)))
        except ValueError as error:
            errors[name] = error
    if not errors:
        return read
    first, *others = errors
    if not others:
        raise errors[first]
    raise ValueError(
        f"{errors[first]}. {count(len(others), 'other column')} cannot be read either: "
        f"{listed(others, 8)}"
    ) from errors[first]


def _names(frame: pd.DataFrame) -> pd.Index | None:
    """Names of the columns, as texts; None where they are positions, as in a table of an array."""
    given = frame.columns.tolist()
    if all(isinstance(name, int) and name == place for place, name in enumerate(given)):
        return None
    names = pd.Index([str(name) for name in given])
    refuse_doubled("features have", names)
    return names


def _without_blanks(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with blank texts as missing values, which is how pandas reads them from files."""
    blank = {place: are_blank(frame.iloc[:, place]) for place in range(frame.shape[1])}
    full = {
        place: frame.iloc[:, place].mask(cells) for place, cells in blank.items() if cells.any()
    }
    if not full:
        return frame
    columns = [full.get(place, frame.iloc[:, place]) for place in blank]
    return pd.concat(columns, axis=1)


def _is_plain(frame: pd.DataFrame) -> bool:
    """Whether all columns have numeric NumPy dtypes, so that they convert to one plain array."""
    dtypes = frame.dtypes
    return all(isinstance(dtype, np.dtype) and dtype.kind in "iuf" for dtype in dtypes)


def _numbers(column: pd.Series) -> Float[np.ndarray, " row"]:
    if not pd.api.types.is_numeric_dtype(column.dtype):
        values = pd.to_numeric(column, errors="coerce")
        odd = (values.isna() & column.notna()).to_numpy()
        if odd.any():
            row = int(odd.argmax())
            raise ValueError(
                f"features row {row} (index {show(column.index[row])}): {column.name} is "
                f"{show(column.iloc[row])}, but those of the fit were numbers"
            )
        column = values
    numbers = column.to_numpy(np.float64, na_value=np.nan)
    check_numbers(show(column.name), "real", numbers)
    return numbers


def _codes(column: pd.Series, levels: pd.Index) -> Float[np.ndarray, " row"]:
    codes = levels.get_indexer(pd.Index(column.astype(object), tupleize_cols=False))
    unknown = (codes < 0) & column.notna().to_numpy()
    if unknown.any():
        row = int(unknown.argmax())
        warn(
            f"column {show(column.name)} holds {show(column.iloc[row])}, which no item of the fit "
            f"had ({listed(levels)}): {count(int(unknown.sum()), 'such cell')} treated as empty"
            f"{did_you_mean(column.iloc[row], levels)}"
        )
    return np.where(codes < 0, np.nan, codes)


def columns_of_array(features: Any, kinds: Mapping[Hashable, str] | None) -> Columns | None:
    """What the columns of an array hold: real numbers (None), unless all are 0 or 1.

    Parameters
    ----------
    features
        An array or tensor, a row per item.
    kinds
        Kinds of some columns, by position.

    Examples
    --------
    >>> columns_of_array(np.array([[0.0, 1.0], [1.0, 1.0]]), None).kinds
    ('binary', 'real')
    >>> columns_of_array(np.array([[0.0, 2.0], [1.0, 1.0]]), {1: "count"}).kinds
    ('real', 'count')
    """
    if features.ndim != 2:
        if kinds:
            raise ValueError(
                "kinds describe the columns of a table, but items have features of shape "
                f"{list(features.shape[1:])}: leave kinds out"
            )
        return None
    if not kinds:
        if not (_zeros_and_ones(features[:SAMPLE]) and _zeros_and_ones(features)):
            return None
        varies = (features == 0).any(0) & (features == 1).any(0)
        found = ("binary" if both else "real" for both in varies.tolist())
        return Columns(None, tuple(found), (None,) * len(varies))
    every = dict.fromkeys(range(features.shape[1]), "real") | dict(kinds)
    if "category" in every.values():
        column = list(every.values()).index("category")
        raise ValueError(
            f"kinds say that column {column} of an array is a category: pass a data frame, so that "
            "the names of its categories are known"
        )
    values = features.double().numpy(force=True) if isinstance(features, Tensor) else features
    return Columns.of(pd.DataFrame(values), every)


def _zeros_and_ones(features: Any) -> bool:
    """Whether all features that are not missing are 0 or 1."""
    return bool(((features == 0) | (features == 1) | (features != features)).all())
