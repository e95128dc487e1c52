"""Features that stay in storage, such as on disk: only a window of them is in memory at a time.

Stored features come in chunks of consecutive rows. An epoch goes through the chunks in random
order, ``window`` of them at a time: these are read as a whole, one after the other, and minibatches
are drawn from all their rows in random order. Every row is in one minibatch of the epoch, and,
where all chunks have the same size, in each with the same probability, as in a full shuffle. But
rows of one chunk are drawn at about the same time, so rows that are sorted by kind should be
shuffled once in storage.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

# Bytes of a chunk of a memory map, roughly, and chunks of a window: 16 MB.
_CHUNK_BYTES = 2**18
_WINDOW_CHUNKS = 64
# Rows in a window of other stored features; no fewer row groups, even if these are larger.
_WINDOW_ROWS = 2**16
_MIN_GROUPS = 4


class StoredFeatures:
    """Base class of stored features: rows of numbers in chunks, which derived classes read.

    Parameters
    ----------
    shape
        ``[N, ...]``.
    dtype
        Of the numbers.
    bounds
        First row of every chunk, and N at the end.
    window
        Number of chunks whose rows are shuffled together; up to twice as many are held.
    """

    def __init__(
        self, shape: Sequence[int], dtype: Any, bounds: Int[np.ndarray, " bound"], window: int
    ) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.window = window
        self._bounds = np.asarray(bounds, dtype=np.int64)
        self._held = np.empty(0, dtype=np.int64)
        self.hold([])

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def read(self, start: int, stop: int) -> np.ndarray:
        """The rows from ``start`` to before ``stop``."""
        raise NotImplementedError

    def hold(self, chunks: Sequence[int]) -> None:
        """Keep these chunks in memory instead of those held so far."""
        kept = np.sort(np.asarray(chunks, dtype=np.int64))
        starts, stops = self._bounds[kept], self._bounds[kept + 1]
        offsets = np.concatenate([[0], np.cumsum(stops - starts)])
        values = np.empty((offsets[-1], *self.shape[1:]), self.dtype)
        is_here = np.isin(kept, self._held)
        for start, stop, offset, here in zip(starts, stops, offsets, is_here, strict=False):
            rows = self[start:stop] if here else self._checked(start, stop)
            values[offset : offset + stop - start] = rows
        self._held, self._offsets, self._values = kept, offsets, values

    def __getitem__(self, rows: Any) -> np.ndarray:
        """The rows of a slice, or at some positions from 0 on; or the row at one position."""
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        rows = np.asarray(rows)
        if rows.ndim == 0:
            return self[rows[None]][0]
        if rows.size and (rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= len(self)):
            raise IndexError(
                "stored features are read by a slice or by positions, whole numbers from 0 to "
                f"{len(self) - 1}"
            )
        rows = rows.astype(np.int64)
        chunk = np.searchsorted(self._bounds, rows, side="right") - 1
        slot = np.searchsorted(self._held, chunk)
        slot[slot == len(self._held)] = 0
        held = self._held[slot] == chunk if len(self._held) else np.zeros(len(rows), dtype=bool)
        of_held = self._offsets[slot[held]] + rows[held] - self._bounds[chunk[held]]
        if held.all():
            return self._values[of_held]
        found = np.empty((len(rows), *self.shape[1:]), self.dtype)
        found[held] = self._values[of_held]
        (left,) = np.nonzero(~held)
        # Consecutive rows are read together.
        for run in np.split(left, np.nonzero(np.diff(rows[left]) != 1)[0] + 1):
            if len(run):
                found[run] = self._checked(rows[run[0]], rows[run[-1]] + 1)
        return found

    def _checked(self, start: int, stop: int) -> np.ndarray:
        values = self.read(int(start), int(stop))
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            bad = ~np.isfinite(values).reshape(len(values), -1).all(1)
            raise ValueError(
                f"features row {start + int(bad.argmax())} holds NaN or infinite numbers, which "
                "stored features must not: fill them in, or drop the row"
            )
        self._check_dtype(values.dtype, int(start))
        return values

    def _check_dtype(self, dtype: np.dtype, row: int) -> None:
        """Raise a ``ValueError`` if numbers would be cut off."""
        if not np.can_cast(dtype, self.dtype, "same_kind" if self.dtype.kind == "f" else "safe"):
            raise ValueError(
                f"features row {row} is {dtype}, which cannot become {self.dtype}, the dtype of "
                "the features, without loss: give all rows the same dtype, and no empty cells"
            )

    def windows(
        self, generator: torch.Generator
    ) -> Iterator[tuple[Int[Tensor, " row"], Int[Tensor, " row"]]]:
        """Go through all chunks in random order; yields where those of a window start and stop."""
        order = torch.randperm(len(self._bounds) - 1, generator=generator)
        bounds, before = torch.from_numpy(self._bounds), order[:0]
        for chunks in order.split(self.window):
            # A minibatch between two windows has rows of both.
            self.hold(torch.cat([before, chunks]).tolist())
            before = chunks
            chunks = chunks.sort().values
            yield bounds[chunks], bounds[chunks + 1]


def _even_bounds(count: int, size: int) -> Int[np.ndarray, " bound"]:
    return np.append(np.arange(0, count, size), count)


class MemmapFeatures(StoredFeatures):
    """The rows of a ``numpy.memmap``, read from its file.

    Rows are read from the file, not from the map, since the pages of a map count as memory of the
    process until the machine needs them.

    Parameters
    ----------
    features
        A memory map in row order, as ``numpy.memmap`` or ``numpy.load(..., mmap_mode="r")``
        return it.
    """

    def __init__(self, features: np.memmap) -> None:
        if not self.reads(features):
            if not features.flags.c_contiguous and features.flags.f_contiguous:
                raise ValueError(
                    "the file of the memory map holds column after column, as one made from a data "
                    "frame does: save numpy.ascontiguousarray(array), which is row after row"
                )
            raise ValueError("features are a part of a memory map: pass the whole map")
        self._file, self._offset = Path(str(features.filename)), features.offset
        self._row_size = math.prod(features.shape[1:])
        row_bytes = max(self._row_size * features.dtype.itemsize, 1)
        bounds = _even_bounds(len(features), max(_CHUNK_BYTES // row_bytes, 1))
        super().__init__(features.shape, features.dtype, bounds, _WINDOW_CHUNKS)

    @staticmethod
    def reads(features: np.memmap) -> bool:
        """Whether it is a whole map in row order; NumPy does not say where a part of one starts."""
        return isinstance(features.base, mmap.mmap) and features.flags.c_contiguous

    def read(self, start: int, stop: int) -> np.ndarray:
        offset = self._offset + start * self._row_size * self.dtype.itemsize
        number = (stop - start) * self._row_size
        values = np.fromfile(self._file, self.dtype, number, offset=offset)
        return values.reshape(stop - start, *self.shape[1:])


@runtime_checkable
class IndexedDataset(Protocol):
    """A map-style dataset: one with ``len()`` and ``[i]``."""

    def __len__(self) -> int:
        """How many items it has."""

    def __getitem__(self, row: int) -> Any:
        """The features of an item, or a tuple that begins with them."""


class DatasetFeatures(StoredFeatures):
    """The items of a map-style ``torch.utils.data.Dataset``, each read when it is needed.

    ``dataset[i]`` is the features of an item, or a tuple that begins with them.

    Parameters
    ----------
    dataset
        Has ``len(dataset)`` and ``dataset[i]``.

    Examples
    --------
    >>> from torch.utils.data import TensorDataset
    >>> features = DatasetFeatures(TensorDataset(torch.eye(3), torch.tensor([0, 1, 0])))
    >>> features.shape, features[[2]].tolist()
    ((3, 3), [[0.0, 0.0, 1.0]])
    """

    def __init__(self, dataset: IndexedDataset) -> None:
        if not isinstance(dataset, IndexedDataset):
            raise ValueError(
                f"the dataset {type(dataset).__name__} cannot be indexed: pass one with len() and "
                "[i]; an iterable dataset can be written to a file first"
            )
        self._dataset = dataset
        first = self._item(0)
        bounds = _even_bounds(len(dataset), _WINDOW_CHUNKS)
        window = max(_WINDOW_ROWS // _WINDOW_CHUNKS, 1)
        super().__init__((len(dataset), *first.shape), first.dtype, bounds, window)

    def _item(self, row: int) -> np.ndarray:
        item = self._dataset[row]
        return np.asarray(item[0] if isinstance(item, tuple | list) else item)

    def hold(self, chunks: Sequence[int]) -> None:
        # An epoch needs every item once, and reading neighbours together is not faster.
        super().hold([])

    def windows(self, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(self._bounds) - 1, generator=generator)
        bounds = torch.from_numpy(self._bounds)
        for chunks in order.split(self.window):
            yield bounds[chunks], bounds[chunks + 1]

    def read(self, start: int, stop: int) -> np.ndarray:
        items = [self._item(row) for row in range(start, stop)]
        for row, item in enumerate(items, start):
            self._check_dtype(item.dtype, row)
        return np.stack(items)


class ParquetFeatures(StoredFeatures):
    """Numeric columns of a parquet file; its row groups are the chunks. Needs ``pyarrow``.

    A window is four row groups, or as many as have 65,536 rows if these are more: write small row
    groups (``row_group_size=10_000``).

    Parameters
    ----------
    path
        The file.
    columns
        Names of the columns, one per feature; default: all.
    """

    def __init__(self, path: str | os.PathLike, columns: Sequence[str] | None = None) -> None:
        from pyarrow import parquet

        self._parquet = parquet.ParquetFile(path)
        schema = self._parquet.schema_arrow
        self._columns = list(schema.names if columns is None else columns)
        unknown = [name for name in self._columns if name not in schema.names]
        if unknown:
            raise ValueError(f"{path} has no column {unknown[0]!r}, only {', '.join(schema.names)}")
        kinds = [schema.field(name).type.to_pandas_dtype() for name in self._columns]
        for name, kind in zip(self._columns, kinds, strict=True):
            if np.dtype(kind).kind not in "biuf":
                raise ValueError(f"column {name!r} of {path} is not numeric: leave it out")
        metadata = self._parquet.metadata
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        bounds = np.cumsum([0, *sizes])
        window = max(_WINDOW_ROWS // max([1, *sizes]), _MIN_GROUPS)
        self._last: tuple[int, np.ndarray] | None = None
        shape = metadata.num_rows, len(self._columns)
        super().__init__(shape, np.result_type(*kinds), bounds, window)

    def _group(self, group: int) -> np.ndarray:
        # Predictions read a group in several steps, so the last one is kept.
        if self._last is None or self._last[0] != group:
            table = self._parquet.read_row_group(group, columns=self._columns)
            # Integers with empty cells become floating-point numbers here, which are refused.
            columns = [table[name].to_numpy() for name in self._columns]
            self._last = group, np.stack(columns, 1)
        return self._last[1]

    def read(self, start: int, stop: int) -> np.ndarray:
        first = int(np.searchsorted(self._bounds, start, side="right")) - 1
        parts = []
        while self._bounds[first] < stop:
            base = self._bounds[first]
            parts.append(self._group(first)[max(start - base, 0) : stop - base])
            first += 1
        return np.concatenate(parts)
