"""True labels for plots, in the order of the items."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pyro_crowdclust.data.tables import to_index
from pyro_crowdclust.metrics import as_array
from pyro_crowdclust.protocols import FittedModel


def labels_of_items(fitted: FittedModel, true_labels: ArrayLike | pd.Series) -> np.ndarray:
    """True labels in the order of the items.

    Parameters
    ----------
    fitted
        The result of ``fit``.
    true_labels
        One label per item. A series whose index has the ids of all items, and perhaps others, is
        matched by this index, like ``known`` of ``CrowdData``; everything else is in the order of
        the items.

    Raises
    ------
    ValueError
        If there is not one label per item.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from pyro_crowdclust.data import CrowdData
    >>> fitted = SimpleNamespace(data=CrowdData(np.eye(2), item_ids=["ant", "cat"]))
    >>> labels_of_items(fitted, pd.Series({"cat": "mammal", "ant": "insect"})).tolist()
    ['insect', 'mammal']
    >>> labels_of_items(fitted, pd.Series(["insect", "mammal"])).tolist()
    ['insect', 'mammal']
    """
    labels, ids = as_array(true_labels), fitted.data.item_ids
    if isinstance(true_labels, pd.Series):
        named = to_index(true_labels.index, "true_labels")
        places = named.get_indexer(ids) if named.is_unique else np.array([-1])
        if (places >= 0).all():
            return labels[places]
    if len(labels) != len(ids):
        raise ValueError(
            f"true_labels has {len(labels)} entries, but there are {len(ids)} items: pass one per "
            "item, or a series with their ids as index"
        )
    return labels
