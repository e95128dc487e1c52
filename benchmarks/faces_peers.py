"""Peers of the Face experiment that need a separate environment.

metric-learn 0.7.0 needs scikit-learn below 1.6, so ITML, PCKMeans and MPCKMeans are run separately,
on the answers that ``examples/faces_crowd.py --export`` wrote:

    python -m venv peers && peers/bin/pip install --requirement benchmarks/faces_peers.txt
    peers/bin/python benchmarks/faces_peers.py faces.npz faces_peers.json

All get the majority vote of every pair that was asked about. PCKMeans and MPCKMeans as shipped
compute the transitive closure of constraints and refuse contradictory ones, which votes of noisy
answers always have; so the closure is skipped here. If a method stops with an error, such as an
empty cluster, it is tried with another seed, and scores zero after five failures.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import numpy as np
from active_semi_clustering.semi_supervised.pairwise_constraints import (
    MPCKMeans,
    PCKMeans,
    mpckmeans,
    pckmeans,
)
from metric_learn import ITML
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score

POSES = 4
SLOW_SEEDS = 1  # of MPCKMeans, whose loops over pairs are plain Python
Links = list[tuple[int, int]]


def open_constraints(must: Links, cannot: Links, size: int) -> tuple[dict, dict, list]:
    """Both graphs without the closure, and no neighbourhoods, which need the closure."""
    graphs = []
    for links in (must, cannot):
        graph: dict[int, set[int]] = {item: set() for item in range(size)}
        for one, other in links:
            graph[one].add(other)
            graph[other].add(one)
        graphs.append(graph)
    return *graphs, []


class FasterMPCKMeans(MPCKMeans):
    """Finds the farthest pair in one matrix, which the package does pair by pair."""

    def _find_farthest_pairs_of_points(self, X: np.ndarray, A: np.ndarray) -> tuple:
        scaled = X * np.sqrt(np.diag(A))
        squares = (scaled**2).sum(1)
        distances = squares[:, None] + squares - 2 * scaled @ scaled.T
        one, other = np.unravel_index(distances.argmax(), distances.shape)
        return one, other, distances[one, other]


def majority(answers: np.ndarray, size: int) -> tuple[Links, Links]:
    """Pairs that most workers called the same, and different; ties are left out."""
    votes = np.zeros((size, size))
    left, right = np.sort(answers[:, :2], axis=1).T
    np.add.at(votes, (left, right), 2 * answers[:, 3] - 1)
    must, cannot = (list(map(tuple, np.argwhere(sign * votes > 0))) for sign in (1, -1))
    return must, cannot


def itml(features: np.ndarray, must: Links, cannot: Links, seed: int) -> np.ndarray:
    """k-means in the metric that ITML learns from the votes."""
    pairs = features[np.array(must + cannot)]
    signs = np.repeat([1, -1], [len(must), len(cannot)])
    metric = ITML(random_state=seed).fit(pairs, signs)
    return KMeans(POSES, n_init=10, random_state=seed).fit_predict(metric.transform(features))


def constrained(kind: type) -> Callable[..., np.ndarray]:
    """PCKMeans or MPCKMeans on the votes."""

    def fit(features: np.ndarray, must: Links, cannot: Links, seed: int) -> np.ndarray:
        np.random.seed(seed)  # noqa: NPY002, the package draws from the global generator
        return kind(POSES).fit(features, ml=must, cl=cannot).labels_

    return fit


METHODS = {
    "ITML and k-means": itml,
    "PCKMeans": constrained(PCKMeans),
    "MPCKMeans": constrained(FasterMPCKMeans),
}


def score(method: Callable, features: np.ndarray, poses: np.ndarray, votes: tuple) -> float:
    """NMI of the first seed from which the method comes to an end."""
    for seed in range(5):
        try:
            return normalized_mutual_info_score(poses, method(features, *votes, seed))
        except Exception as error:
            print(f"  {type(error).__name__}: {error}", flush=True)
    return 0.0


if __name__ == "__main__":
    pckmeans.preprocess_constraints = mpckmeans.preprocess_constraints = open_constraints
    given = np.load(sys.argv[1])
    features, poses = given["features"], given["poses"]
    scores = {}
    # The first seeds, with MPCKMeans, come last, since it is the slowest.
    keys = set(given.files) - {"features", "poses"}
    for key in sorted(keys, key=lambda key: -int(key.split()[2])):
        votes = majority(given[key], len(poses))
        _, _, seed = key.split()
        scores[key] = {
            name: score(method, features, poses, votes)
            for name, method in METHODS.items()
            if name != "MPCKMeans" or int(seed) < SLOW_SEEDS
        }
        print(key, scores[key], flush=True)
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            json.dump(scores, file)
