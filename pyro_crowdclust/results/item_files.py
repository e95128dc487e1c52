"""Parquet files with the cluster of every item, written part by part."""

from __future__ import annotations

import os
from collections.abc import Iterable

import numpy as np
import pandas as pd
from jaxtyping import Float

from pyro_crowdclust.files.writing import check_room


def write_assignments(
    path: str | os.PathLike,
    parts: Iterable[tuple[pd.Index, Float[np.ndarray, "item cluster"], Float[np.ndarray, " item"]]],
    all_ids: pd.Index | None = None,
) -> None:
    """Write ids and q(z) of items to a parquet file, with one part in memory at a time.

    Columns: ``item``, ``cluster`` (the most probable), ``probability`` (of that cluster), and
    ``probabilities`` (of all clusters, as a list). Ids of several types, as in tuples, cannot be a
    column of such a file, and are written as texts.

    Parameters
    ----------
    path
        The file.
    parts
        Ids, q(z), and the probabilities of the items' own clusters, of every part.
    all_ids
        The ids of all parts, which decide the type of the column; None for row numbers.

    Raises
    ------
    ValueError
        If ``pyarrow`` is not installed, or the file cannot be written.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ValueError(
            f"cannot write {path}, since parquet files need pyarrow: pip install "
            "'pyro-crowdclust[parquet]'"
        ) from error
    check_room(path, 1)
    are_texts = False
    if all_ids is not None:
        try:
            pyarrow.array(all_ids)
        except pyarrow.ArrowException:
            are_texts = True
    writer = None
    try:
        for ids, probabilities, own in parts:
            single = probabilities.astype(np.float32)
            lists = pyarrow.FixedSizeListArray.from_arrays(single.ravel(), single.shape[1])
            columns = {
                "item": pyarrow.array([str(one) for one in ids] if are_texts else ids),
                "cluster": single.argmax(1),
                "probability": own.astype(np.float32),
                "probabilities": lists,
            }
            table = pyarrow.table(columns)
            if writer is None:
                writer = parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if writer is not None:
            writer.close()
