"""Choosers of pairs that assume an oracle, of the package active-semi-supervised-clustering.

    python -m venv peers && peers/bin/pip install --requirement benchmarks/asking_peers.txt

It and metric-learn can also be installed in the environment of this library with `--no-deps`. Its
NPU (Xiong, Azimi and Fern 2014) fits k-means under constraints for every item that it asks about,
and computes a matrix of similarities entry by entry: seconds with 500 items, minutes with 2,000.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from active_semi_clustering.active.pairwise_constraints import NPU, ExploreConsolidate, MinMax
from active_semi_clustering.active.pairwise_constraints.example_oracle import (
    MaximumQueriesExceeded,
)
from active_semi_clustering.semi_supervised.pairwise_constraints import PCKMeans


class Oracle:
    """True answers until the budget is spent; unlike the package's oracle, it stores questions."""

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


CHOOSERS = {
    "explore_consolidate": lambda number: ExploreConsolidate(n_clusters=number),
    "min_max": lambda number: MinMax(n_clusters=number),
    "npu": lambda number: NPU(clusterer=PCKMeans(n_clusters=number)),
}


def questions(
    name: str, features: np.ndarray, truth: np.ndarray, budget: int, seed: int
) -> pd.DataFrame:
    """A chooser's questions and answers, in order; the first ones are those of a smaller budget."""
    np.random.seed(seed)  # noqa: NPY002, the package draws from the global generator
    oracle = Oracle(truth, budget)
    CHOOSERS[name](len(np.unique(truth))).fit(features, oracle=oracle)
    return pd.DataFrame(oracle.asked, columns=["left", "right", "label"])


def as_answers(asked: pd.DataFrame) -> pd.DataFrame:
    """Distinct answers, as a table for this library."""
    asked = asked[asked["left"] != asked["right"]].drop_duplicates()
    return asked.assign(worker="oracle", label=asked["label"].astype(int))
