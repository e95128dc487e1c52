"""Tables and crowds of many kinds, for the benchmark ``any_table.py``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse
from sklearn import datasets
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer

from pyro_crowdclust.simulation import simulate_pairs

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("PYRO_CROWDCLUST_DATA", ROOT.parent / "shared" / "data"))

# The tables on which settings of the library were chosen; the others were not used for this.
SETTINGS = (
    *("breast_cancer", "digits", "iris", "yeast", "rings", "heavy_tails"),
    *("useless", "overlapping", "tfidf_100", "mnist"),
)
Table = tuple[np.ndarray, np.ndarray]


def some_of(x: np.ndarray, y: np.ndarray, number: int) -> Table:
    """A random part of the items, in their order."""
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
    images, digits = some_of(found["x_train"], found["y_train"], 2000)
    return images.reshape(len(images), -1) / 255, digits


def words() -> Table:
    """2,000 posts, with a column for each of 100 words: whether a post has it."""
    found = _archive("news20_w100.npz")
    return some_of(found["x"].astype(float), found["y"], 2000)


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
    """Two classes, and twenty columns that are independent of them."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(800, 20)), rng.integers(0, 2, 800)


def useless_beside_useful() -> Table:
    """Three columns with three clusters, and thirty columns of noise."""
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
