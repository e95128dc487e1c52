"""``cluster`` on tables with gaps and mixed columns, and with labels, links or pages, not pairs.

    python benchmarks/tables_as_they_are.py --tables breast_cancer wine

Some tables lose a tenth of their numbers; in others a third of the columns become binary, and a
random category is added; with answers about pairs, or without answers. Complete tables have the
classes of a tenth of the items, 150 links, or sorted pages. The library runs ``cluster`` with no
other argument. The baselines are given the number of classes: k-means on standardized columns, with
means instead of missing numbers, and for known classes logistic regression. Scores are normalized
mutual information of all items with the classes; for known classes the accuracy on the other items.
Prints a line per cell and, last, one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
import torch
from any_table_data import SETTINGS, TABLES, random_pairs, some_of
from sklearn.cluster import KMeans
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import normalized_mutual_info_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pyro_crowdclust import cluster
from pyro_crowdclust.results import known_class_probabilities
from pyro_crowdclust.simulation import simulate_placements

CELLS = ("gaps, pairs", "gaps", "mixed, pairs", "mixed", "known", "links", "pages")
DEFAULT = ("breast_cancer", "iris", "wine", "glass", "skewed", "unbalanced")


def with_gaps(x: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    """The table with a tenth of the numbers missing."""
    return pd.DataFrame(x).mask(rng.random(x.shape) < 0.1)


def mixed(x: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    """The table with a third of the columns binary, and a random category."""
    table = pd.DataFrame(x)
    for column in table.columns[::3]:
        table[column] = table[column] > table[column].median()
    return table.assign(hair=rng.choice(["brown", "red", "fair"], len(x)))


def links(kinds: np.ndarray, rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    """150 pairs of items that must, or cannot, be together."""
    ends = np.unique(np.sort(rng.integers(0, len(kinds), (200, 2)), axis=1), axis=0)
    ends = rng.permutation(ends[ends[:, 0] != ends[:, 1]])[:150]
    same = kinds[ends[:, 0]] == kinds[ends[:, 1]]
    frame = pd.DataFrame(ends, columns=["left", "right"])
    return {"must_link": frame[same], "cannot_link": frame[~same]}


def some_known(kinds: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Whether items have a known class: a tenth, and two of every class."""
    known = rng.random(len(kinds)) < 0.1
    for kind in np.unique(kinds):
        known[rng.choice(np.flatnonzero(kinds == kind), 2, replace=False)] = True
    return known


def k_means(table: Any, number: int, seed: int) -> np.ndarray:
    """k-means on standardized columns, with means instead of missing numbers."""
    columns = pd.get_dummies(pd.DataFrame(table)).to_numpy(float)
    points = make_pipeline(SimpleImputer(), StandardScaler()).fit_transform(columns)
    return KMeans(number, n_init=5, random_state=seed).fit_predict(points)


def run(name: str, wanted: list[str], seed: int, items: int | None) -> list[dict[str, Any]]:
    """Some cells of a table."""
    x, y = TABLES[name]()
    x, y = some_of(np.asarray(x, float), y, items or len(x))
    kinds = np.unique(y, return_inverse=True)[1]
    rng, number = np.random.default_rng(seed), len(np.unique(kinds))
    pairs = random_pairs(kinds, seed)
    pages = simulate_placements(kinds, [0.9] * 6, pages_per_worker=3, page_size=20, seed=seed)
    known = some_known(kinds, rng)
    cells: dict[str, tuple[Any, dict[str, Any]]] = {
        "gaps, pairs": (with_gaps(x, rng), {"pairs": pairs}),
        "gaps": (with_gaps(x, rng), {}),
        "mixed, pairs": (mixed(x, rng), {"pairs": pairs}),
        "mixed": (mixed(x, rng), {}),
        "known": (x, {"known": pd.Series(kinds, dtype="Int64").where(known)}),
        "links": (x, links(kinds, rng)),
        "pages": (x, {"placements": pages}),
    }
    rows = []
    for cell, (table, said) in ((cell, cells[cell]) for cell in wanted):
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = cluster(table, **said, seed=seed, progress=False)
            if cell == "known":
                ours = float((known_class_probabilities(result).argmax(1) == kinds)[~known].mean())
                peer = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
                peer.fit(x[known], kinds[known])
                best = float((peer.predict(x) == kinds)[~known].mean())
            else:
                ours = normalized_mutual_info_score(kinds, result.assignments)
                best = normalized_mutual_info_score(kinds, k_means(table, number, seed))
        row = {"table": name, "cell": cell, "ours": round(ours, 3), "baseline": round(best, 3)}
        row |= {"clusters": len(np.unique(result.assignments))}
        row |= {"seconds": round(time.perf_counter() - started, 1)}
        print(json.dumps(row), flush=True)
        rows.append(row)
    return rows


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Run the tables; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=sorted(TABLES), default=[*DEFAULT])
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=[*CELLS])
    parser.add_argument("--items", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    wanted = options.cells, options.seed, options.items
    rows = pd.DataFrame([row for name in options.tables for row in run(name, *wanted)])
    rows["gap"] = rows["ours"] - rows["baseline"]
    figures: dict[str, Any] = {
        "cells": len(rows),
        "share_at_or_above_baseline": round(float((rows["gap"] >= -0.01).mean()), 3),
        "mean_gap": round(float(rows["gap"].mean()), 3),
        "worst_gap": round(float(rows["gap"].min()), 3),
        "mean_gap_by_cell": rows.groupby("cell")["gap"].mean().round(3).to_dict(),
        "tables_that_settings_were_chosen_on": [n for n in options.tables if n in SETTINGS],
        "median_seconds": float(rows["seconds"].median()),
    }
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
