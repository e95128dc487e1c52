"""Photographs of scenes that people sorted into groups, without features: 355 pages of 35.

Everybody sorted one page, into any number of groups: half of the people made five or fewer groups,
although a page has about a dozen categories. ``cluster(None, placements=...)`` uses placements on
pages. It is compared with the same pages as answers about all of their pairs, and with spectral
clustering of the shares in which pairs are in one group, given the number of categories.

    python examples/scenes.py --data DIR

NMI and adjusted Rand index are computed with the folders of the photographs, which people did not
see: most put bedrooms, kitchens, living rooms and offices into one group. So the last score is
about pairs of different folders that are the same with a probability above .99: the share of these
that people put into one group, compared with that of pairs of one folder.

DIR has ``partitions_scenes.npz``; its default is the environment variable PYRO_CROWDCLUST_DATA, or
../shared/data without it. Last line: one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.cluster import SpectralClustering

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.interface import AnswersAlone, cluster
from pyro_crowdclust.metrics import adjusted_rand_index, normalized_mutual_information


def load(folder: Path, num_pages: int | None) -> tuple[pd.DataFrame, np.ndarray]:
    """The first ``num_pages`` pages, and the folder of every photograph."""
    arrays = np.load(folder / "partitions_scenes.npz")
    table = pd.DataFrame(arrays["placements"], columns=arrays["columns"])
    table = table.rename(columns={"assignment": "page"})
    # The workers are not known.
    table = table.assign(worker=table["page"])[["page", "item", "worker", "group"]]
    return table[table["page"] < (num_pages or np.inf)], arrays["truth"]


def shares_of_groups(pages: pd.DataFrame, num_items: int) -> tuple[np.ndarray, np.ndarray]:
    """How often every pair of items was on one page, and how often in one group, as a share."""
    together, shared = np.zeros((2, num_items, num_items))
    for _, page in pages.groupby("page"):
        item, group = page["item"].to_numpy(), page["group"].to_numpy()
        at = np.ix_(item, item)
        shared[at] += 1
        together[at] += group[:, None] == group
    return shared, together / np.maximum(shared, 1)


def scores(truth: np.ndarray, found: np.ndarray) -> dict[str, float]:
    """NMI and adjusted Rand index with the folders."""
    return {
        "nmi": normalized_mutual_information(truth, found),
        "ari": adjusted_rand_index(truth, found),
        "clusters": float(len(np.unique(found))),
    }


def agreement(
    result: Fitted, truth: np.ndarray, shared: np.ndarray, share: np.ndarray
) -> dict[str, float]:
    """How often people agree with pairs that are almost certainly the same by the fit."""
    left, right = np.nonzero(np.triu(shared, 1))
    ids = result.data.item_ids
    same = np.asarray(result.same_cluster_probability(ids[left].tolist(), ids[right].tolist()))
    sure, one_folder = same > 0.99, truth[left] == truth[right]
    weight, said = shared[left, right], share[left, right]
    parts = {"same_folder": sure & one_folder, "other_folder": sure & ~one_folder}
    found = {"sure": float(sure.sum())}
    for name, part in parts.items():
        found[name] = float(np.average(said[part], weights=weight[part])) if part.any() else 0.0
    return found


def main(arguments: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Run the example; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = os.environ.get("PYRO_CROWDCLUST_DATA", "../shared/data")
    parser.add_argument("--data", type=Path, default=Path(folder))
    parser.add_argument("--pages", type=int, help="default: all")
    parser.add_argument("--epochs", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    pages, truth = load(options.data, options.pages)
    data = CrowdData(None, placements=pages, item_ids=range(len(truth)))
    fits = {"epochs": options.epochs, "seed": options.seed, "progress": False}
    shared, share = shares_of_groups(pages, len(truth))
    seen = data.annotated_items.numpy()
    figures: dict[str, dict[str, float]] = {}
    ways = {
        "ours": lambda: cluster(None, placements=pages, item_ids=range(len(truth)), **fits),
        "pairs": lambda: AnswersAlone(data.as_pairs()).fit(**fits),
    }
    for name, fit in ways.items():
        started = time.perf_counter()
        result = fit()
        seconds = time.perf_counter() - started
        figures[name] = scores(truth[seen], result.assignments[seen])
        figures[name] |= agreement(result, truth, shared, share) | {"seconds": seconds}
        print(f"{name}: {result}\n{result.chosen}")
    affinity = share[np.ix_(seen, seen)] + 1e-9
    spectral = SpectralClustering(
        len(np.unique(truth)), affinity="precomputed", random_state=options.seed
    )
    figures["spectral"] = scores(truth[seen], spectral.fit_predict(affinity))
    figures = {
        name: {key: round(value, 4) for key, value in row.items()} for name, row in figures.items()
    }
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
