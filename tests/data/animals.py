"""Four animals with features, and three answers about them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pyro_crowdclust.data import CrowdData

IDS = ["ant", "bee", "cat", "dog"]


def table(**changed) -> pd.DataFrame:
    """Three valid answers; keywords replace columns."""
    columns = {
        "left": ["ant", "cat", "dog"],
        "right": ["bee", "ant", "bee"],
        "worker": ["wu", "ada", "wu"],
        "label": [1, 0, 1],
    }
    return pd.DataFrame(columns | changed, index=["r0", "r1", "r2"])


def features() -> np.ndarray:
    return np.arange(8.0).reshape(4, 2)


def crowd(**changed) -> CrowdData:
    return CrowdData(features(), table(**changed), item_ids=IDS)
