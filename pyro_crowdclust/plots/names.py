"""The names of a fit's clusters in plots."""

from __future__ import annotations

import pandas as pd

from pyro_crowdclust.protocols import FittedModel


def cluster_names(fitted: FittedModel) -> pd.Index:
    """The ids of the classes, if workers named classes, and numbers otherwise.

    The index is called ``class`` or ``cluster``.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> from pyro_crowdclust.data import CrowdData
    >>> labels = {"item": [0, 1], "worker": ["Ann", "Ann"], "label": ["cat", "dog"]}
    >>> for data in (CrowdData(None, labels=labels), CrowdData(np.eye(2))):
    ...     names = cluster_names(SimpleNamespace(data=data, probabilities=np.eye(2)))
    ...     print(names.name, names.tolist())
    class ['cat', 'dog']
    cluster [0, 1]
    """
    data, num_clusters = fitted.data, fitted.probabilities.shape[1]
    if data.class_labels is not None and data.num_classes == num_clusters:
        return data.class_ids.rename("class")
    return pd.RangeIndex(num_clusters, name="cluster")
