"""Tables of a result, which the command line writes and the report shows."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pyro_crowdclust.protocols import SupportsMixture, SupportsPartition, SupportsWorkers
from pyro_crowdclust.results import Fitted, known_class_probabilities

# An item is in doubt if its cluster or class is less probable than this.
SURE = 0.9
# What ``tables`` may hold.
TABLES = (
    "items",
    "clusters",
    "workers",
    "pages",
    "classes",
    "confusion",
    "columns",
    "choice",
    "history",
)


def has_clusters(result: Fitted) -> bool:
    """Whether the fit has clusters, and not classes that workers named."""
    if isinstance(result.guide, SupportsMixture | SupportsPartition):
        return True
    return result.data.class_labels is None and result.has_assignments


def tables(result: Fitted) -> dict[str, pd.DataFrame]:
    """The tables of a result by name, with the user's ids.

    With clusters: ``items``, ``clusters``, ``workers`` where there are answers, and ``pages`` where
    pages were sorted. With classes: ``items``, ``classes``, ``workers`` and ``confusion``. Always
    ``history``; for tables of features ``columns``, with what each holds; and ``choice`` where the
    model was chosen.

    Examples
    --------
    >>> from pyro_crowdclust import CrowdData
    >>> from pyro_crowdclust.interface import infer_classes
    >>> said = {"item": [0, 0, 0, 1, 1], "worker": list("abcab"), "label": list("xxyyy")}
    >>> found = tables(infer_classes(CrowdData(None, labels=said), num_communities=[1]))
    >>> found["items"]["class"].tolist(), found["classes"]["assigned_items"].tolist()
    (['x', 'y'], [1, 1])
    """
    if has_clusters(result):
        found = {"items": _item_table(result), "clusters": result.clusters}
        if result.data.has_answers and isinstance(result.guide, SupportsWorkers):
            found["workers"] = result.workers
        if result.data.placements is not None:
            found["pages"] = result.pages
    elif result.data.class_labels is not None:
        found = _tables_of_classes(result)
    else:
        found = {}
    if result.data.columns is not None:
        found["columns"] = result.data.columns.table()
    if result.chosen is not None:
        found["choice"] = result.chosen.table.rename_axis("candidate")
    return found | {"history": result.history.set_index("epoch")}


def _item_table(result: Fitted) -> pd.DataFrame:
    """One row per item: its cluster and the cluster's probability.

    The class and its probability follow if some classes were known.
    """
    columns = {"cluster": result.assignments, "probability": result.assignment_probabilities}
    if result.data.num_known_classes:
        of_classes = known_class_probabilities(result)
        columns["class"] = result.data.known_ids[of_classes.argmax(1)]
        columns["class_probability"] = of_classes.max(1)
    return pd.DataFrame(columns, index=result.data.item_ids.rename("item"))


def _tables_of_classes(result: Fitted) -> dict[str, pd.DataFrame]:
    probabilities = result.class_probabilities
    items = pd.DataFrame(
        {"class": probabilities.idxmax(axis=1), "probability": probabilities.max(axis=1)}
    )
    classes = pd.DataFrame(
        {
            "expected_items": probabilities.sum(),
            "assigned_items": items["class"].value_counts().reindex(probabilities.columns),
        }
    ).fillna({"assigned_items": 0})
    classes["assigned_items"] = classes["assigned_items"].astype(np.int64)
    classes["share"] = classes["expected_items"] / classes["expected_items"].sum()
    return {
        "items": items,
        "classes": classes.rename_axis("class"),
        "workers": result.workers,
        "confusion": result.confusion,
    }
