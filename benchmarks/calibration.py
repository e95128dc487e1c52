"""Coverage of intervals of workers' rates, and calibration of probabilities of "same cluster".

Every row is a type of answers about 80 items in 4 clusters: 6 workers answer independent pairs or
all pairs of pages, or sort pages into groups; with separated features, overlapping ones, or
features that show other clusters for half or all of the items. Each data set is fitted by
``cluster``, with at most 6 clusters and otherwise default arguments.

    python benchmarks/calibration.py --datasets 200

For each row: how often the 90 % intervals of sensitivity and specificity contain the true rates;
the share of wrong pairs among those with a probability of "same" above .99; and the log loss of the
probabilities over that of the base rate. For sorted pages, the intervals are those of the accuracy,
from which both rates follow; with lumped pages, these are the rates of the other pages. Without
features the number of clusters is inferred. For grades, the intervals are those of the shares of
the highest grade for pairs that look the same, and of the lowest for pairs that look different.
Prints a line per row and, last, one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from pyro_crowdclust import cluster
from pyro_crowdclust.annotators import GradedAnswers, SortedPages, pair_rates
from pyro_crowdclust.simulation import simulate_pages, simulate_pairs, simulate_placements

ITEMS, CLUSTERS, WORKERS = 80, 4, 6
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
PAGES = {"pages_per_worker": 3, "page_size": 20}


class Crowd(NamedTuple):
    """Answers as ``cluster`` takes them, and the workers' true rates over pairs."""

    answers: dict[str, Any]
    sensitivity: np.ndarray
    specificity: np.ndarray


def coins(rng: np.random.Generator, expert: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Rates of two-coin workers: uniform above .6, or Beta(7, 2)."""
    draw = rng.beta(7, 2, (2, WORKERS)) if expert else rng.uniform(0.6, 1.0, (2, WORKERS))
    return draw[0], draw[1]


def pairs(
    truth: np.ndarray, rng: np.random.Generator, seed: int, expert: bool = False, each: int = 200
) -> Crowd:
    """Independent answers about random pairs."""
    rates = coins(rng, expert)
    answers = simulate_pairs(truth, *rates, pairs_per_worker=each, seed=seed)
    return Crowd({"pairs": answers}, *rates)


def expert_pairs(truth: np.ndarray, rng: np.random.Generator, seed: int) -> Crowd:
    """Independent answers about random pairs, by workers with rates from Beta(7, 2)."""
    return pairs(truth, rng, seed, expert=True)


def few_pairs(truth: np.ndarray, rng: np.random.Generator, seed: int) -> Crowd:
    """Too few answers to determine which items are the same: 4.5 per item."""
    return pairs(truth, rng, seed, each=60)


def pages_of_pairs(truth: np.ndarray, rng: np.random.Generator, seed: int) -> Crowd:
    """Independent answers about all pairs of a page."""
    rates = coins(rng)
    answers = simulate_pages(truth, *rates, seed=seed, **PAGES)
    return Crowd({"pairs": answers}, *rates)


def lapses(truth: np.ndarray, rng: np.random.Generator, seed: int) -> Crowd:
    """Random pairs on pages of 20, one page in five answered without looking."""
    crowd = pairs(truth, rng, seed)
    table = crowd.answers["pairs"]
    table["page"] = table.groupby("worker").cumcount() // 20
    for _, page in table.groupby(["worker", "page"]):
        if rng.random() < 0.2:
            said = rng.random(len(page)) < rng.choice([0.1, 0.5, 0.9])
            table.loc[page.index, "label"] = said.astype(int)
    return crowd


def sorted_pages(truth: np.ndarray, rng: np.random.Generator, seed: int, **states: float) -> Crowd:
    """Pages sorted into groups, with a share of up to .4 of the items misplaced."""
    accuracy = rng.uniform(0.6, 1.0, WORKERS)
    crowd = simulate_placements(truth, accuracy, seed=seed, **PAGES, **states)
    return Crowd({"placements": crowd}, *pair_rates(accuracy, CLUSTERS))


def lumped_pages(truth: np.ndarray, rng: np.random.Generator, seed: int) -> Crowd:
    """Sorted pages, one in seven with several clusters in a group."""
    return sorted_pages(truth, rng, seed, lumped=1 / 7)


def careless_pages(truth: np.ndarray, rng: np.random.Generator, seed: int) -> Crowd:
    """Sorted pages, one in seven at random."""
    return sorted_pages(truth, rng, seed, careless=1 / 7)


def grades(truth: np.ndarray, rng: np.random.Generator, seed: int) -> Crowd:
    """Grades from 0 to 3 about random pairs, or "can't tell"; every worker has own thresholds."""
    ends = [rng.choice(ITEMS, 2, replace=False) for _ in range(200 * WORKERS)]
    left, right = np.sort(ends, axis=1).T
    place, pair = np.unique(left * ITEMS + right, return_inverse=True)
    looks = np.array([[0.6, 0.3, 0.07, 0.03], [0.03, 0.07, 0.3, 0.6]])
    same = (truth[place // ITEMS] == truth[place % ITEMS]).astype(int)
    level = np.array([rng.choice(4, p=looks[one]) for one in same])
    rows = np.array(
        [[rng.dirichlet(row) for row in 6 * np.eye(4, 5) + 0.5] for _ in range(WORKERS)]
    )
    worker = np.arange(len(left)) % WORKERS
    label = [rng.choice(5, p=rows[m, s]) for m, s in zip(worker, level[pair], strict=True)]
    answers = pd.DataFrame({"left": left, "right": right, "worker": worker, "label": label})
    answers = answers.drop_duplicates(["left", "right", "worker"])
    return Crowd({"pairs": answers, "grades": range(4)}, rows[:, 3, 3], rows[:, 0, 0])


class Row(NamedTuple):
    """A type of answers, and how the features are related to the clusters.

    Attributes
    ----------
    crowd
        Function that makes the answers.
    separation
        Distance of clusters in the features; None: no features.
    shown
        Share of the items whose features belong to the cluster that workers see. Those of the other
        items belong to a random cluster.
    """

    crowd: Callable[..., Crowd]
    separation: float | None
    shown: float = 1.0


CLEAR, OVERLAPPING = 6.0, 2.0
ROWS = {
    "pairs": Row(pairs, CLEAR),
    "pairs_beta_workers": Row(expert_pairs, CLEAR),
    "pages_of_pairs": Row(pages_of_pairs, CLEAR),
    "lapses": Row(lapses, CLEAR),
    "sorted_pages": Row(sorted_pages, CLEAR),
    "lumped_pages": Row(lumped_pages, CLEAR),
    "careless_pages": Row(careless_pages, CLEAR),
    "pairs_overlapping": Row(pairs, OVERLAPPING),
    "sorted_pages_overlapping": Row(sorted_pages, OVERLAPPING),
    "few_pairs": Row(few_pairs, CLEAR),
    "few_pairs_half_shown": Row(few_pairs, CLEAR, 0.5),
    "few_pairs_not_shown": Row(few_pairs, CLEAR, 0.0),
    "pairs_half_shown": Row(pairs, CLEAR, 0.5),
    "pairs_alone": Row(pairs, None),
    "few_pairs_alone": Row(few_pairs, None),
    "sorted_pages_alone": Row(sorted_pages, None),
    "lumped_pages_alone": Row(lumped_pages, None),
    "grades_alone": Row(grades, None),
}


class Found(NamedTuple):
    """The results of one data set."""

    sensitivity: np.ndarray
    specificity: np.ndarray
    wrong: int
    sure: int
    log_loss: float
    base: float


def fitted(case: Row, seed: int) -> Found:
    """Simulate a data set, fit it, and compare with the truth."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(CLUSTERS, size=ITEMS)
    features, most = None, None
    if case.separation is not None:
        shown = truth
        if case.shown < 1:
            others = rng.random(ITEMS) >= case.shown
            shown = np.where(others, rng.integers(CLUSTERS, size=ITEMS), truth)
        noise = rng.standard_normal((ITEMS, 2))
        features, most = case.separation * CORNERS[shown] + noise, 6
    crowd = case.crowd(truth, rng, seed)
    result = cluster(features, **crowd.answers, num_clusters=most, seed=seed, progress=False)
    table = result.workers
    if isinstance(result.model.annotators, SortedPages):
        ends = [
            pair_rates(table[f"accuracy_{end}"].to_numpy(), CLUSTERS) for end in ("lower", "upper")
        ]
        intervals = list(zip(*ends, strict=True))
    elif isinstance(result.model.annotators, GradedAnswers):
        intervals = [
            (table[f"{share}_lower"], table[f"{share}_upper"])
            for share in ("grades_4_3", "grades_1_0")
        ]
    else:
        intervals = [
            (table[f"{rate}_lower"], table[f"{rate}_upper"])
            for rate in ("sensitivity", "specificity")
        ]
    true = crowd.sensitivity, crowd.specificity
    inside = [
        np.asarray((lower <= rate) & (rate <= upper))
        for rate, (lower, upper) in zip(true, intervals, strict=True)
    ]
    ids = result.data.item_ids
    left, right = (ids.to_numpy()[end] for end in np.triu_indices(len(ids), 1))
    same = np.clip(result.same_cluster_probability(left, right), 1e-6, 1 - 1e-6)
    is_same = truth[left] == truth[right]
    share = is_same.mean()
    return Found(
        *inside,
        wrong=int((~is_same[same > 0.99]).sum()),
        sure=int((same > 0.99).sum()),
        log_loss=float(-np.log(np.where(is_same, same, 1 - same)).mean()),
        base=float(-share * np.log(share) - (1 - share) * np.log(1 - share)),
    )


def row(name: str, datasets: int, first: int) -> dict[str, float]:
    """The figures of a row."""
    found = [fitted(ROWS[name], seed) for seed in range(first, first + datasets)]
    return {
        "coverage_sensitivity": float(np.mean([one.sensitivity for one in found])),
        "coverage_specificity": float(np.mean([one.specificity for one in found])),
        "wrong_above_99": sum(one.wrong for one in found) / max(sum(one.sure for one in found), 1),
        "log_loss_over_base": float(np.mean([one.log_loss / one.base for one in found])),
    }


def main(arguments: list[str] | None = None) -> dict[str, object]:
    """Run the rows; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", type=int, default=200, help="data sets per row")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--seed", type=int, default=0, help="seed of the first data set")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    figures: dict[str, object] = {}
    for name in options.rows:
        started = time.perf_counter()
        found = row(name, options.datasets, options.seed)
        figures[name] = {key: round(value, 4) for key, value in found.items()}
        seconds = (time.perf_counter() - started) / options.datasets
        print(f"{name:26s} {figures[name]} {seconds:.1f} s a fit", flush=True)
    rows = [figures[name] for name in options.rows]
    coverages = [
        part[f"coverage_{rate}"] for part in rows for rate in ("sensitivity", "specificity")
    ]
    figures["worst_coverage"] = min(coverages, key=lambda share: -abs(share - 0.9))
    figures["worst_wrong_above_99"] = max(part["wrong_above_99"] for part in rows)
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
