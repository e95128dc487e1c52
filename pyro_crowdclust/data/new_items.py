"""Reads items that come after a fit, as the fit read its own."""

from __future__ import annotations

from typing import Any

import pandas as pd

from pyro_crowdclust.data.columns import Columns
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.tables import in_pandas


def read_new_items(
    features: Any, columns: Columns | None, shape: tuple[int, ...] | None
) -> CrowdData:
    """Items with the columns of earlier ones, so that categories keep their codes.

    Ids are positions, since rows that are drawn with replacement, or joined from several tables,
    share index values.

    Parameters
    ----------
    features
        Features of the new items.
    columns, shape
        What the columns of the earlier items hold, and the shape of one item's features; None for
        features that are no table, and without features.
    """
    if columns is None and shape is not None and len(shape) == 1:
        columns = Columns.of_numbers(shape[0])
    features = in_pandas(features)
    ids = pd.RangeIndex(len(features)) if isinstance(features, pd.DataFrame) else None
    return CrowdData(features, item_ids=ids, kinds=columns)
