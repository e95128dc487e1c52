"""The first call on tables of many kinds, with crowds of many kinds, beside common baselines.

    python benchmarks/any_table.py                                        # everything: hours
    python benchmarks/any_table.py --tables iris rings --crowds pairs none --seeds 1

Every cell is a table and a crowd; its score is the normalized mutual information of all items with
the classes, averaged over seeds. Ours is ``cluster(features, pairs)`` with no other argument; the
truth scores it and makes the crowd, and tells the baselines their number of clusters. Settings of
the library were chosen on the tables of ``SETTINGS``; the last line has the figures of both halves.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse
from sklearn import datasets
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import normalized_mutual_info_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading

from pyro_crowdclust.interface import cluster
from pyro_crowdclust.simulation import simulate_pairs

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("PYRO_CROWDCLUST_DATA", ROOT.parent / "shared" / "data"))

# The tables on which settings of the library were chosen; all others were not looked at before.
SETTINGS = (
    *("breast_cancer", "digits", "iris", "yeast", "rings", "heavy_tails"),
    *("useless", "overlapping", "tfidf_100", "mnist"),
)
TOLERANCE = 0.01

Table = tuple[np.ndarray, np.ndarray]


def _some(x: np.ndarray, y: np.ndarray, number: int) -> Table:
    chosen = np.random.default_rng(0).choice(len(x), min(number, len(x)), replace=False)
    return x[np.sort(chosen)], y[np.sort(chosen)]


def _of_sklearn(name: str) -> Callable[[], Table]:
    return lambda: getattr(datasets, f"load_{name}")(return_X_y=True)


def _archive(name: str) -> dict[str, np.ndarray]:
    with np.load(DATA / name, allow_pickle=False) as archive:
        return dict(archive)


def _uci(name: str) -> Callable[[], Table]:
    def table() -> Table:
        found = _archive(f"uci_{name}.npz")
        return found["x"], found["y"]

    return table


def faces() -> Table:
    """Photographs of 20 people, 960 columns."""
    found = _archive("cmu_faces_quarter.npz")
    return found["images"].reshape(len(found["images"]), -1) / 255, found["person"]


def mnist() -> Table:
    """2,000 images as 784 columns."""
    found = _archive("mnist.npz")
    images, digits = _some(found["x_train"], found["y_train"], 2000)
    return images.reshape(len(images), -1) / 255, digits


def words() -> Table:
    """Which of 100 words 2,000 posts have."""
    found = _archive("news20_w100.npz")
    return _some(found["x"].astype(float), found["y"], 2000)


def _tfidf(dim: int) -> Callable[[], Table]:
    """Principal directions of eight topics of 2,000 posts."""

    def table() -> Table:
        found = _archive("news20_w1000.npz")
        parts = (
            found["data_train"],
            found["indices_train"].astype(np.int32),
            found["indptr_train"],
        )
        counts = scipy.sparse.csr_matrix(parts, shape=tuple(found["shape_train"]))
        chosen = np.flatnonzero(np.isin(found["y_train"], [0, 3, 7, 9, 11, 14, 15, 17]))
        chosen = np.sort(np.random.default_rng(0).choice(chosen, 2000, replace=False))
        weighted = TfidfTransformer(sublinear_tf=True).fit_transform(counts[chosen])
        return TruncatedSVD(dim, random_state=0).fit_transform(weighted), found["y_train"][chosen]

    return table


def _gaussian(
    number: int, dim: int, clusters: int, separation: float, weights: list[float] | None = None
) -> Callable[[], Table]:
    """Spherical clusters around random centers."""

    def table() -> Table:
        rng = np.random.default_rng(0)
        kinds = rng.choice(clusters, number, p=weights)
        centers = separation * rng.normal(size=(clusters, dim))
        return centers[kinds] + rng.normal(size=(number, dim)), kinds

    return table


def anisotropic() -> Table:
    """Five clusters of different covariances."""
    rng = np.random.default_rng(0)
    number, dim, clusters = 2000, 15, 5
    kinds = rng.integers(0, clusters, number)
    centers = rng.normal(size=(clusters, dim)) * 4 * np.sqrt(2 / dim)
    roots = rng.normal(size=(clusters, dim, dim)) * np.exp(
        0.7 * rng.normal(size=(clusters, 1, dim))
    )
    noise = np.einsum("nij,nj->ni", roots[kinds] / np.sqrt(dim), rng.normal(size=(number, dim)))
    return centers[kinds] + noise, kinds


def rings() -> Table:
    """Three rings in the plane."""
    rng = np.random.default_rng(0)
    ring = np.arange(1500) % 3
    radius, angle = 1 + 2 * ring + 0.2 * rng.normal(size=1500), rng.uniform(0, 2 * np.pi, 1500)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1), ring


def moons() -> Table:
    """Two half circles."""
    return datasets.make_moons(1000, noise=0.1, random_state=0)


def heavy_tails() -> Table:
    """Clusters of Student's t with two degrees of freedom."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 5, 1500)
    return 3 * rng.normal(size=(5, 6))[kinds] + rng.standard_t(2, size=(1500, 6)), kinds


def skewed() -> Table:
    """Log-normal clusters."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 4, 1000)
    return np.exp(1.2 * rng.normal(size=(4, 8))[kinds] + 0.7 * rng.normal(size=(1000, 8))), kinds


def useless() -> Table:
    """Two classes that twenty columns say nothing of."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(800, 20)), rng.integers(0, 2, 800)


def useless_beside_useful() -> Table:
    """Three columns that tell three clusters, and thirty of noise."""
    found, kinds = _gaussian(1000, 3, 3, 2.5)()
    return np.column_stack([found, np.random.default_rng(1).normal(size=(1000, 30))]), kinds


def large() -> Table:
    """20,000 items of anisotropic clusters' means."""
    return _gaussian(20_000, 15, 8, 1.0)()


TABLES: dict[str, Callable[[], Table]] = {
    "breast_cancer": _of_sklearn("breast_cancer"),
    "digits": _of_sklearn("digits"),
    "wine": _of_sklearn("wine"),
    "iris": _of_sklearn("iris"),
    "glass": _uci("glass"),
    "yeast": _uci("yeast"),
    "words": words,
    "tfidf_100": _tfidf(100),
    "tfidf_300": _tfidf(300),
    "faces": faces,
    "mnist": mnist,
    "anisotropic": anisotropic,
    "rings": rings,
    "moons": moons,
    "heavy_tails": heavy_tails,
    "skewed": skewed,
    "overlapping": _gaussian(1000, 5, 4, 1.2),
    "unbalanced": _gaussian(3000, 4, 3, 2.0, [0.88, 0.11, 0.01]),
    "two": _gaussian(100, 4, 2, 1.5),
    "thirty": _gaussian(5000, 10, 30, 3.0),
    "useless": useless,
    "useless_beside_useful": useless_beside_useful,
    "large": large,
}


def random_pairs(kinds: np.ndarray, seed: int, workers: int = 12, adversaries: int = 0):
    """60 random pairs among 80 items by each worker, whose rates are Beta(8, 2)."""
    rng = np.random.default_rng(100 + seed)
    rates = rng.beta(8, 2, (2, workers))
    rates[:, :adversaries] = 1 - rates[:, :adversaries]
    asked = rng.choice(len(kinds), min(80, len(kinds)), replace=False)
    return simulate_pairs(kinds, *rates, pairs_per_worker=60, items=asked, seed=seed)


def sorted_pages(kinds: np.ndarray, seed: int) -> pd.DataFrame:
    """60 pages of 25 of 400 items that ten people sorted: slips, and every seventh page lumped."""
    rng = np.random.default_rng(200 + seed)
    asked = rng.choice(len(kinds), min(400, len(kinds)), replace=False)
    frames = []
    for page in range(60):
        items = rng.choice(asked, 25, replace=False)
        group = kinds[items].copy()
        slips = rng.random(25) < 0.05
        group[slips] = rng.integers(0, kinds.max() + 1, slips.sum())
        found = np.unique(group)
        if rng.random() < 1 / 7 and len(found) > 1:
            first, second = rng.choice(found, 2, replace=False)
            group[group == first] = second
        left, right = np.triu_indices(25, 1)
        same = (group[left] == group[right]).astype(int)
        columns = {"left": items[left], "right": items[right], "worker": page % 10, "label": same}
        frames.append(pd.DataFrame(columns | {"page": page}))
    return pd.concat(frames, ignore_index=True)


def judges(kinds: np.ndarray, seed: int) -> pd.DataFrame:
    """500 pairs of all items, each answered by three judges of rates .8 and .9."""
    rng = np.random.default_rng(300 + seed)
    left = rng.integers(0, len(kinds), 500)
    right = rng.integers(0, len(kinds) - 1, 500)
    right += right >= left
    yes = np.where(kinds[left] == kinds[right], 0.8, 0.1)
    frames = [
        {"left": left, "right": right, "worker": worker, "label": (rng.random(500) < yes) * 1}
        for worker in range(3)
    ]
    return pd.concat([pd.DataFrame(frame) for frame in frames], ignore_index=True)


CROWDS: dict[str, Callable[[np.ndarray, int], pd.DataFrame | None]] = {
    "none": lambda kinds, seed: None,
    "pairs": random_pairs,
    "pages": sorted_pages,
    "adversaries": lambda kinds, seed: random_pairs(kinds, seed, 8, 2),
    "judges": judges,
}


def of_features(x: np.ndarray, number: int, seed: int) -> dict[str, np.ndarray]:
    """Baselines that hear no answers; they know the number of classes."""
    found = {"k-means": KMeans(number, n_init=5, random_state=seed).fit_predict(x)}
    fits = []
    for kind in ("full", "tied", "diag", "spherical"):
        if x.shape[1] <= 120 or kind in ("diag", "spherical"):
            mixture = GaussianMixture(
                number, covariance_type=kind, reg_covar=1e-4, random_state=seed
            )
            fits.append(mixture.fit(x))
    found["Gaussian mixture, BIC"] = min(fits, key=lambda fitted: fitted.bic(x)).predict(x)
    return found


def of_votes(pairs: pd.DataFrame, number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Spectral clustering of the majority votes about the asked items."""
    asked = np.unique(pairs[["left", "right"]])
    left, right = (np.searchsorted(asked, pairs[side]) for side in ("left", "right"))
    votes, counts = np.zeros((2, len(asked), len(asked)))
    np.add.at(votes, (left, right), pairs["label"])
    np.add.at(counts, (left, right), 1)
    votes, counts = votes + votes.T, counts + counts.T
    affinity = np.where(counts > 0, votes / np.maximum(counts, 1), pairs["label"].mean() / 2) + 1e-6
    np.fill_diagonal(affinity, 1)
    spectral = SpectralClustering(number, affinity="precomputed", random_state=seed)
    return asked, spectral.fit_predict(affinity)


def of_answers(x: np.ndarray, pairs: pd.DataFrame, number: int, seed: int) -> dict[str, np.ndarray]:
    """Baselines that hear the answers; they know the number of classes."""
    found = {"constrained k-means": constrained_k_means(x, pairs, number, seed)}
    asked, labels = of_votes(pairs, number, seed)
    if len(np.unique(labels)) > 1:
        predicted = LogisticRegression(max_iter=500).fit(x[asked], labels).predict(x)
        predicted[asked] = labels
        found["votes, then logistic regression"] = predicted
        known = np.full(len(x), -1)
        known[asked] = labels
        spreading = LabelSpreading(kernel="knn", n_neighbors=10, max_iter=50)
        found["label spreading from votes"] = spreading.fit(x, known).transduction_
    return found


def constrained_k_means(
    x: np.ndarray, pairs: pd.DataFrame, number: int, seed: int, rounds: int = 10
) -> np.ndarray:
    """k-means with a penalty for every majority vote that is not kept (Basu et al. 2004)."""
    votes = pairs.groupby(["left", "right"])["label"].agg(lambda said: 2 * said.sum() - len(said))
    neighbors: dict[int, list[tuple[int, float]]] = {}
    for (left, right), weight in votes.items():
        neighbors.setdefault(left, []).append((right, weight))
        neighbors.setdefault(right, []).append((left, weight))
    start = KMeans(number, n_init=3, random_state=seed).fit(x)
    labels, centers = start.labels_.copy(), start.cluster_centers_.copy()
    free = ~np.isin(np.arange(len(x)), list(neighbors))
    for _ in range(rounds):
        before = labels.copy()
        distance = (x**2).sum(1)[:, None] - 2 * x @ centers.T + (centers**2).sum(1)
        labels[free] = distance[free].argmin(1)
        for item, others in neighbors.items():
            cost = distance[item].copy()
            for other, weight in others:
                cost[labels[other]] -= x.shape[1] * weight / 2
            labels[item] = cost.argmin()
        for one in np.unique(labels):
            centers[one] = x[labels == one].mean(0)
        if (labels == before).all():
            break
    return labels


def item_calibration_error(probabilities: np.ndarray, kinds: np.ndarray, bins: int = 10) -> float:
    """``sum_b n_b / N |accuracy_b - confidence_b|``, an item right if its cluster's class is its.

    The class of a cluster is that of most of its items.
    """
    labels, confidence = probabilities.argmax(1), probabilities.max(1)
    table = pd.crosstab(labels, kinds)
    right = table.idxmax(axis=1).loc[labels].to_numpy() == kinds
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    share = np.bincount(place, minlength=bins) / len(kinds)
    gaps = [
        abs(right[place == one].mean() - confidence[place == one].mean()) if share[one] else 0.0
        for one in range(bins)
    ]
    return float(share @ gaps)


def run_cell(x: np.ndarray, kinds: np.ndarray, make: Callable, seed: int) -> dict[str, object]:
    """Ours and the baselines on one table, one crowd and one seed."""
    number = len(np.unique(kinds))
    scaled = StandardScaler().fit_transform(x)
    pairs = make(kinds, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = of_features(scaled, number, seed)
        plain = KMeans(number, n_init=5, random_state=seed).fit_predict(x)
        found["k-means, own units"] = plain
        if pairs is not None:
            found |= of_answers(scaled, pairs, number, seed)
    started = time.perf_counter()
    result = cluster(x, pairs, seed=seed, progress=False)
    seconds = time.perf_counter() - started
    scores = {name: normalized_mutual_info_score(kinds, labels) for name, labels in found.items()}
    return {
        "ours": normalized_mutual_info_score(kinds, result.assignments),
        "baselines": scores,
        "ece": item_calibration_error(result.probabilities, kinds),
        "seconds": seconds,
        "clusters": int((result.clusters["assigned_items"] > 0).sum()),
        "chosen": result.chosen.winner,
    }


def summary(cells: dict[str, dict[str, object]]) -> dict[str, float]:
    """The figures of some cells."""
    gaps = [cell["gap"] for cell in cells.values()]
    kept = [
        cell["ours"] >= cells[f"{name.split('/')[0]}/none"]["ours"] - TOLERANCE
        for name, cell in cells.items()
        if not name.endswith("/none") and f"{name.split('/')[0]}/none" in cells
    ]
    return {
        "share_at_or_above_best": statistics.fmean(gap >= -TOLERANCE for gap in gaps),
        "mean_gap": statistics.fmean(gaps),
        "worst_gap": min(gaps),
        "share_not_below_without_answers": statistics.fmean(kept) if kept else None,
        "item_ece": statistics.fmean(cell["ece"] for cell in cells.values()),
        "median_seconds": statistics.median(cell["seconds"] for cell in cells.values()),
        "cells": len(cells),
    }


def main(arguments: list[str] | None = None) -> dict[str, object]:
    """Run the cells, print a line for each; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--crowds", nargs="+", default=list(CROWDS), choices=list(CROWDS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--items", type=int, help="at most so many items of every table")
    options = parser.parse_args(arguments)
    cells: dict[str, dict[str, object]] = {}
    for table in options.tables:
        try:
            x, y = TABLES[table]()
        except FileNotFoundError as error:
            print(f"{table}: skipped, {error.filename} is not there", file=sys.stderr)
            continue
        x, y = _some(np.asarray(x, float), y, options.items or len(x))
        kinds = np.unique(y, return_inverse=True)[1]
        for crowd in options.crowds:
            runs = [run_cell(x, kinds, CROWDS[crowd], seed) for seed in range(options.seeds)]
            baselines = {
                name: statistics.fmean(run["baselines"].get(name, 0.0) for run in runs)
                for name in runs[0]["baselines"]
            }
            keys = ("ours", "ece", "seconds")
            cell = {key: statistics.fmean(run[key] for run in runs) for key in keys}
            best = max(baselines, key=baselines.__getitem__)
            cell |= {"best": best, "best_score": baselines[best]}
            cell["gap"] = cell["ours"] - baselines[best]
            cell["chosen"] = [f"{run['chosen']}, {run['clusters']} clusters" for run in runs]
            cells[f"{table}/{crowd}"] = cell
            print(
                f"| {table} | {crowd} | {cell['ours']:.2f} | {best} {baselines[best]:.2f} | "
                f"{cell['ece']:.2f} | {cell['seconds']:.0f} s | {cell['chosen'][0]} |",
                flush=True,
            )
    halves = {
        "settings": {n: cell for n, cell in cells.items() if n.split("/")[0] in SETTINGS},
        "unseen": {n: cell for n, cell in cells.items() if n.split("/")[0] not in SETTINGS},
    }
    found = summary(cells) | {name: summary(half) for name, half in halves.items() if half}
    print(json.dumps(found))
    return found


if __name__ == "__main__":
    main()
