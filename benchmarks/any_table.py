"""``cluster`` on tables of many kinds, with crowds of many kinds, compared with common baselines.

    python benchmarks/any_table.py --processes 8 --lines cells.jsonl     # everything
    python benchmarks/any_table.py --tables iris rings --crowds pairs none --seeds 1

Every cell is a table and a crowd; its score is the normalized mutual information of all items with
the classes, averaged over seeds. The library runs ``cluster(features, pairs)`` with no other
argument. The truth is used for scores, to simulate the crowd, and to give the baselines the number
of clusters. Settings of the library were chosen on the tables of ``SETTINGS``; the last line has
the figures of these and of the other tables.

Every run writes a line to the file ``--lines`` when it ends; ``--lines cells.jsonl --read`` prints
the figures of the lines in the file without running anything.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from any_table_data import CROWDS, SETTINGS, TABLES, some_of
from any_table_peers import of_answers, of_features
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score
from sklearn.preprocessing import StandardScaler

from pyro_crowdclust import Fitted, cluster

TOLERANCE = 0.01
# Random pairs of items of which the log loss is taken.
_PAIRS = 8000
Run = dict[str, Any]


def item_calibration_error(result: Fitted, kinds: np.ndarray, bins: int = 10) -> float:
    """``sum_b n_b / N |accuracy_b - confidence_b|``, an item right if its cluster has its class.

    The class of a cluster is that of most of its items.
    """
    labels, confidence = result.assignments, result.assignment_probabilities
    table = pd.crosstab(labels, kinds)
    right = table.idxmax(axis=1).loc[labels].to_numpy() == kinds
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    share = np.bincount(place, minlength=bins) / len(kinds)
    gaps = [
        abs(right[place == one].mean() - confidence[place == one].mean()) if share[one] else 0.0
        for one in range(bins)
    ]
    return float(share @ gaps)


def pair_log_loss(result: Fitted, kinds: np.ndarray) -> float:
    """Log loss of ``same_cluster_probability`` of random pairs, over that of the base rate.

    Probabilities are at least 1e-4 and at most 1 - 1e-4.
    """
    left, right = np.random.default_rng(0).integers(0, len(kinds), (2, _PAIRS))
    left, right = left[left != right], right[left != right]
    together = kinds[left] == kinds[right]
    found = result.same_cluster_by_position(left, right).clip(1e-4, 1 - 1e-4)
    base = np.full(len(found), together.mean())
    loss, of_base = (-np.log(np.where(together, one, 1 - one)).mean() for one in (found, base))
    return float(loss / of_base)


def run_cell(table: str, crowd: str, seed: int, items: int | None = None) -> Run:
    """Scores of the library and the baselines on one table, crowd and seed."""
    x, y = TABLES[table]()
    x, y = some_of(np.asarray(x, float), y, items or len(x))
    kinds = np.unique(y, return_inverse=True)[1]
    number = len(np.unique(kinds))
    scaled = StandardScaler().fit_transform(x)
    pairs = CROWDS[crowd](kinds, seed)
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
        **{"table": table, "crowd": crowd, "seed": seed},
        "ours": normalized_mutual_info_score(kinds, result.assignments),
        "baselines": scores,
        "ece": item_calibration_error(result, kinds),
        "pair_loss": pair_log_loss(result, kinds),
        "confidence": float(result.assignment_probabilities.mean()),
        "seconds": seconds,
        "clusters": int((result.clusters["assigned_items"] > 0).sum()),
        "chosen": result.chosen.winner if result.chosen else "fixed",
    }


def cells_of(runs: Iterable[Run]) -> dict[str, Run]:
    """Means over seeds, by table and crowd; for baselines the best mean."""
    grouped: dict[str, list[Run]] = {}
    for run in runs:
        grouped.setdefault(f"{run['table']}/{run['crowd']}", []).append(run)
    cells = {}
    for name, of_cell in grouped.items():
        cell = {
            key: statistics.fmean(r[key] for r in of_cell)
            for key in ("ours", "ece", "pair_loss", "seconds")
        }
        means = {
            baseline: statistics.fmean(run["baselines"].get(baseline, 0.0) for run in of_cell)
            for baseline in of_cell[0]["baselines"]
        }
        best = max(means, key=means.__getitem__)
        cells[name] = cell | {"best": means[best], "gap": cell["ours"] - means[best]}
    return cells


def summary(cells: dict[str, Run]) -> dict[str, Any]:
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
        "pair_log_loss": statistics.fmean(cell["pair_loss"] for cell in cells.values()),
        "median_seconds": statistics.median(cell["seconds"] for cell in cells.values()),
        "cells": len(cells),
    }


def line_of(run: Run) -> str:
    """A line about a run."""
    best = max(run["baselines"], key=run["baselines"].__getitem__)
    return (
        f"| {run['table']} | {run['crowd']} | {run['seed']} | {run['ours']:.2f} | "
        f"{best} {run['baselines'][best]:.2f} | {run['ece']:.2f} | {run['seconds']:.0f} s | "
        f"{run['chosen']}, {run['clusters']} clusters |"
    )


def one_thread() -> None:
    """Let every process use one thread, since processes share the cores."""
    torch.set_num_threads(1)


def runs_of(tasks: list[tuple[str, str, int, int | None]], processes: int) -> Iterator[Run]:
    """The runs, in the order in which they end; tables with missing files are skipped."""
    if processes == 1:
        for task in tasks:
            try:
                yield run_cell(*task)
            except FileNotFoundError as error:
                print(f"{task[0]}: skipped, {error.filename} does not exist", file=sys.stderr)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=one_thread) as pool:
        futures = {pool.submit(run_cell, *task): task for task in tasks}
        for future in as_completed(futures):
            try:
                yield future.result()
            except FileNotFoundError as error:
                name = futures[future][0]
                print(f"{name}: skipped, {error.filename} does not exist", file=sys.stderr)


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Run the cells, print a line for each; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--crowds", nargs="+", default=list(CROWDS), choices=list(CROWDS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--items", type=int, help="maximal number of items per table")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--lines", type=Path, help="append a JSON line per run to this file")
    parser.add_argument("--read", action="store_true", help="only summarize the lines")
    options = parser.parse_args(arguments)
    runs: list[Run] = []
    if options.read:
        runs = [json.loads(line) for line in options.lines.read_text().splitlines()]
    else:
        # Seeds are the outer loop, so that a time limit cuts off the last seeds.
        tasks = [
            (table, crowd, seed, options.items)
            for seed in range(options.seeds)
            for crowd in options.crowds
            for table in options.tables
        ]
        for run in runs_of(tasks, options.processes):
            runs.append(run)
            print(line_of(run), flush=True)
            if options.lines:
                with options.lines.open("a") as lines:
                    lines.write(json.dumps(run) + "\n")
    cells = cells_of(runs)
    halves = {
        "settings": {n: cell for n, cell in cells.items() if n.split("/")[0] in SETTINGS},
        "unseen": {n: cell for n, cell in cells.items() if n.split("/")[0] not in SETTINGS},
    }
    found = summary(cells) | {name: summary(half) for name, half in halves.items() if half}
    print(json.dumps(found))
    return found


if __name__ == "__main__":
    main()
