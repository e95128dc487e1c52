"""Choosers of pairs that assume an oracle, of the package active-semi-supervised-clustering.

    python -m venv peers && peers/bin/pip install --requirement benchmarks/asking_peers.txt

Its choosers need no more of the package than its own files, so that with `--no-deps` it can be
installed beside this library, too. Its NPU is left out: for every item it fits k-means under
constraints and forms a matrix of similarities entry by entry, minutes with 2,000 items.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from active_semi_clustering.active.pairwise_constraints import ExploreConsolidate, MinMax
from active_semi_clustering.active.pairwise_constraints.example_oracle import (
    MaximumQueriesExceeded,
)


class Oracle:
    """The truth, until the budget is spent; unlike the package's it remembers the questions."""

    def __init__(self, truth: np.ndarray, max_queries_cnt: int) -> None:
        self.truth, self.max_queries_cnt = truth, max_queries_cnt
        self.asked: list[tuple[int, int, bool]] = []

    def query(self, one: int, other: int) -> bool:
        """Whether two items are the same."""
        if len(self.asked) >= self.max_queries_cnt:
            raise MaximumQueriesExceeded
        same = bool(self.truth[one] == self.truth[other])
        self.asked.append((int(one), int(other), same))
        return same


CHOOSERS = {"explore_consolidate": ExploreConsolidate, "min_max": MinMax}


def constraints(
    name: str, features: np.ndarray, truth: np.ndarray, budget: int, seed: int
) -> pd.DataFrame:
    """The answers that a chooser asks for, as this library takes them."""
    np.random.seed(seed)  # noqa: NPY002, the package draws from the global generator
    oracle = Oracle(truth, budget)
    CHOOSERS[name](n_clusters=len(np.unique(truth))).fit(features, oracle=oracle)
    asked = pd.DataFrame(oracle.asked, columns=["left", "right", "label"]).drop_duplicates()
    asked = asked[asked["left"] != asked["right"]]
    return asked.assign(worker="oracle", label=asked["label"].astype(int))
