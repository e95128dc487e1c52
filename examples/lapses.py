"""Workers who lapse: detection of pages of pairs that were answered without looking.

Six workers with rates from Beta(8, 2) answer pages of 20 pairs about 150 points in four overlapping
clusters. On some pages, a worker does not look and answers "same" to a tenth, a half or nine tenths
of the pairs. A two-coin model can only attribute these errors to all of the worker's answers. If
answers come with their pages, workers may lapse (``LapsingWorkers``). That fit is compared with one
without pages, and with a two-coin fit from which all careless pages are removed. ``find_lapses``
names the careless pages.

    python examples/lapses.py --lapses 0 0.2 0.35 --seeds 3

Scores are means over the seeds: NMI with the true clusters, log loss of the probabilities that two
items are the same, and the mean error of the workers' rates. Last line: one JSON object by share of
careless pages.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import log_loss, normalized_mutual_info_score

from pyro_crowdclust import Fitted, cluster
from pyro_crowdclust.diagnostics import find_lapses
from pyro_crowdclust.mixture import GaussianComponents

WORKERS, PAGES, PAIRS = 6, 15, 20


def crowd(
    seed: int, share: float, num_items: int
) -> tuple[np.ndarray, np.ndarray, pd.DataFrame, np.ndarray]:
    """Features, clusters, answers with a column of the true ``careless``, and workers' rates."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(4, size=num_items)
    features = 2.0 * rng.normal(size=(4, 3))[kind] + 1.1 * rng.normal(size=(num_items, 3))
    rates = rng.beta(8, 2, size=(WORKERS, 2))
    careless = rng.random(WORKERS * PAGES) < share
    says_same = rng.choice([0.1, 0.5, 0.9], size=WORKERS * PAGES)
    page = np.repeat(np.arange(WORKERS * PAGES), PAIRS)
    ends = np.sort([rng.choice(num_items, 2, replace=False) for _ in page], axis=1)
    same = kind[ends[:, 0]] == kind[ends[:, 1]]
    attentive = np.where(same, rates[page // PAGES, 0], 1 - rates[page // PAGES, 1])
    yes = rng.random(len(page)) < np.where(careless[page], says_same[page], attentive)
    answers = pd.DataFrame({"left": ends[:, 0], "right": ends[:, 1], "worker": page // PAGES})
    answers = answers.assign(page=page, label=yes.astype(int), careless=careless[page])
    return features, kind, answers.drop_duplicates(["left", "right", "worker"]), rates


def scores(result: Fitted, kind: np.ndarray, rates: np.ndarray) -> dict[str, float]:
    """NMI, log loss of pairs, and mean error of the rates."""
    left, right = np.triu_indices(len(kind), 1)
    same = np.clip(result.same_cluster_probability(left, right), 1e-6, 1 - 1e-6)
    learned = result.workers[["sensitivity", "specificity"]].to_numpy()
    return {
        "nmi": float(normalized_mutual_info_score(kind, result.assignments)),
        "log_loss": float(log_loss(kind[left] == kind[right], same)),
        "rate_error": float(np.abs(learned - rates).mean()),
    }


def compare(seed: int, share: float, num_items: int, options: dict) -> dict[str, dict[str, float]]:
    """Scores of fits without pages, with pages, and without pages and careless answers."""
    features, kind, answers, rates = crowd(seed, share, num_items)
    pairs = answers.drop(columns="careless")
    found = {
        "without_pages": cluster(features, pairs.drop(columns="page"), **options),
        "with_pages": cluster(features, pairs, **options),
        "told": cluster(features, pairs[~answers["careless"]].drop(columns="page"), **options),
    }
    row = {name: scores(result, kind, rates) for name, result in found.items()}
    lapses = find_lapses(found["with_pages"])
    likely = lapses.index.get_level_values("page")[lapses["careless"] > 0.5]
    true = answers.loc[answers["careless"], "page"].unique()
    row["pages"] = {
        "careless": float(len(true)),
        "found": float(len(likely)),
        "right": float(np.isin(likely, true).sum()),
    }
    return row


def main(arguments: list[str] | None = None) -> dict[str, dict[str, dict[str, float]]]:
    """Run the example; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lapses", type=float, nargs="*", default=[0.0, 0.2, 0.35])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--items", type=int, default=150)
    parser.add_argument("--clusters", type=int, help="number of Gaussians; default: chosen")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    fit_options: dict = {"progress": False}
    if options.clusters:
        fit_options |= {"num_clusters": options.clusters, "components": GaussianComponents}

    table = {}
    for share in options.lapses:
        rows = [compare(seed, share, options.items, fit_options) for seed in range(options.seeds)]
        table[str(share)] = {
            name: {
                kind: round(float(np.mean([row[name][kind] for row in rows])), 4)
                for kind in rows[0][name]
            }
            for name in rows[0]
        }
        print(f"{share:.0%} careless: {table[str(share)]}", flush=True)
    print(json.dumps(table))
    return table


if __name__ == "__main__":
    main()
