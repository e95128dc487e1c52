"""Clusters by size: a fit numbers its components, people number clusters from the largest."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Int

from pyro_crowdclust.results import Fitted, class_probabilities


def largest_first(result: Fitted) -> Int[np.ndarray, " cluster"]:
    """The fit's components by the number of items assigned to them, the largest first.

    Item i has the label r if ``largest_first(result)[r] == result.assignments[i]``; labels of items
    of the fit are ``0, 1, ...`` without a gap.

    Examples
    --------
    >>> import numpy as np
    >>> from pyro_crowdclust.interface import cluster
    >>> features = np.repeat([[0.0], [9.0]], [5, 20], axis=0) + np.arange(25)[:, None] / 100
    >>> result = cluster(features, num_clusters=2, progress=False)
    >>> result.clusters["assigned_items"][largest_first(result)].tolist()
    [20, 5]
    """
    assigned = result.clusters["assigned_items"].sort_index()
    return assigned.sort_values(ascending=False, kind="stable").index.to_numpy()


def labels_of(result: Fitted) -> Int[np.ndarray, " item"]:
    """The label of every item of the fit."""
    return np.argsort(largest_first(result))[result.assignments]


def cluster_table(result: Fitted) -> pd.DataFrame:
    """``result.clusters`` under the labels that count from the largest."""
    table = result.clusters.loc[largest_first(result)].reset_index(drop=True)
    return table.rename_axis("cluster")


def item_table(result: Fitted) -> pd.DataFrame:
    """One row per item: its cluster, by label, and the probability of it; its class likewise.

    Classes are there if some were known.
    """
    columns = {"cluster": labels_of(result), "probability": result.probabilities.max(1)}
    if result.data.num_known_classes:
        of_classes = class_probabilities(result)
        columns["class"] = result.data.known_ids[of_classes.argmax(1)]
        columns["class_probability"] = of_classes.max(1)
    return pd.DataFrame(columns, index=result.data.item_ids.rename("item"))
