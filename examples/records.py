"""Clusters of records from answers of five language models about pairs, with and without features.

Clusters of one, two or three items have no shape in the space of features, so that no mixture finds
them. ``cluster(features, pairs)`` detects this from the answers, and uses features as similarities
of two items. A panel is five random judges of those that answered the same pairs. `candidates` are
simulated: one to three records of 100 things in eight dimensions, with two answers about each of
300 near pairs.

The score is F1 of "same" over the pairs that were asked about. It is compared with the same call
without features, the majority vote, and Dawid and Skene's algorithm with pairs as items.

    python examples/records.py --data DIR

DIR has ``judges_*.npz``; its default is the environment variable PYRO_CROWDCLUST_DATA, or
../shared/data without it. Last line: one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import f1_score
from sklearn.neighbors import NearestNeighbors

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import cluster, infer_classes

SETS = ("abt_buy", "dblp_acm", "wdc", "candidates")
JUDGES = 5


def panel(folder: Path, name: str, seed: int) -> tuple[np.ndarray, pd.DataFrame, np.ndarray]:
    """Features, five judges' answers, and whether the pair of each answer is the same."""
    arrays = np.load(folder / f"judges_{name}.npz")
    pair, judge, label = arrays["answers"].T
    rng = np.random.default_rng(seed)
    chosen = np.isin(judge, rng.choice(judge.max() + 1, JUDGES, replace=False)) & (label >= 0)
    pair, judge, label = pair[chosen], judge[chosen], label[chosen]
    left, right = arrays["pair"][pair].T
    pairs = pd.DataFrame({"left": left, "right": right, "worker": judge, "label": label})
    return arrays["record_features"], pairs, arrays["truth"][pair] == 1


def candidates(num_things: int, asked: int, seed: int) -> tuple[np.ndarray, pd.DataFrame, Any]:
    """Simulated records, answers of two of six workers about near pairs, and their truth."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(num_things), rng.choice([1, 2, 3], num_things, p=[0.4, 0.4, 0.2]))
    place = rng.normal(size=(num_things, 8))[truth] + 0.4 * rng.normal(size=(len(truth), 8))
    near = NearestNeighbors(n_neighbors=5).fit(place).kneighbors(return_distance=False)
    ends = np.stack([np.repeat(np.arange(len(truth)), 5), near.ravel()], 1)
    ends = np.unique(np.sort(ends, axis=1), axis=0)
    left, right = np.repeat(rng.permutation(ends)[:asked], 2, axis=0).T
    same = truth[left] == truth[right]
    label = (same ^ (rng.random(len(left)) < 0.1)).astype(int)
    worker = np.concatenate([rng.choice(6, 2, replace=False) for _ in left[::2]])
    pairs = pd.DataFrame({"left": left, "right": right, "worker": worker, "label": label})
    return place, pairs, same


def compare(
    features: np.ndarray, pairs: pd.DataFrame, same: np.ndarray, changes: dict[str, Any]
) -> dict[str, float]:
    """F1 of every method over the distinct pairs, and seconds of the first."""
    by_pair = pairs.assign(same=same).groupby(["left", "right"])
    asked, truth = by_pair["label"].mean(), by_pair["same"].first()
    ends = asked.index.to_frame()
    started = time.perf_counter()
    with_features = cluster(features, pairs, progress=False, **changes)
    seconds = time.perf_counter() - started
    alone = cluster(None, pairs, progress=False, **changes)
    found = {
        name: result.same_cluster_probability(ends["left"], ends["right"]) > 0.5
        for name, result in (("features", with_features), ("answers_alone", alone))
    }
    found["majority"] = (asked > 0.5).to_numpy()
    names = ends["left"].astype(str) + "-" + ends["right"].astype(str)
    of_pair = pairs["left"].astype(str) + "-" + pairs["right"].astype(str)
    labels = pairs[["worker", "label"]].assign(item=of_pair)
    classes = infer_classes(
        CrowdData(None, labels=labels), num_communities=[1], progress=False, **changes
    )
    found["dawid_skene"] = classes.class_probabilities.loc[names, 1].to_numpy() > 0.5
    scores = {name: float(f1_score(truth, one)) for name, one in found.items()}
    return scores | {"clusters": len(np.unique(with_features.assignments)), "seconds": seconds}


def main(arguments: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Run the sets; returns what it prints as JSON, means over the panels."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    folder = os.environ.get("PYRO_CROWDCLUST_DATA", "../shared/data")
    parser.add_argument("--data", type=Path, default=Path(folder))
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--panels", type=int, default=3, help="number of random panels")
    parser.add_argument("--things", type=int, default=100, help="of the simulated records")
    parser.add_argument("--asked", type=int, default=300, help="number of their pairs")
    parser.add_argument("--epochs", type=int, help="sweeps of a fit (default: its own)")
    options = parser.parse_args(arguments)
    changes = {} if options.epochs is None else {"epochs": options.epochs}
    results = {}
    for name in options.sets:
        rows = []
        for seed in range(options.panels):
            if name == "candidates":
                features, pairs, same = candidates(options.things, options.asked, seed)
            else:
                features, pairs, same = panel(options.data, name, seed)
            rows.append(compare(features, pairs, same, changes))
            row = "  ".join(f"{key} {value:.3f}" for key, value in rows[-1].items())
            print(f"{name:11}{seed}  {row}", flush=True)
        results[name] = pd.DataFrame(rows).mean().to_dict()
    print(json.dumps(results))
    return results


if __name__ == "__main__":
    main()
