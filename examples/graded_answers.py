"""Features and graded answers: fits to grades, to grades as binary answers, and without answers.

Eight people grade from 1 to 4 how similar two items are, or answer "can't tell". They differ in how
well they see the truth, one not at all, and in their thresholds: the 2 of one is the 3 of another.
They grade pairs among half of the items of a table; a fifth of the grades is held out. There are
three fits: to grades, to binary answers (3 and 4 are "same", "can't tell" is left out), and to
features alone.

    python examples/graded_answers.py --seeds 5

Scores by table are means over the seeds, and how often grades are at least as good as binary
answers: NMI of the clusters, log loss of whether held-out pairs are the same, and log loss of their
grades. For the fit to binary answers, grades within "same" and "different" have the shares of the
worker. Last line: one JSON object.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import pandas as pd
import torch
from sklearn import datasets
from sklearn.metrics import log_loss, normalized_mutual_info_score

from pyro_crowdclust import Fitted, cluster
from pyro_crowdclust.mixture import GaussianComponents
from pyro_crowdclust.simulation import simulate_grades

TABLES = "clouds", "iris", "wine", "digits"
GRADES, WORKERS, OUTCOMES = 4, 8, 5


def table(name: str, seed: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and classes of some items; overlapping clusters are simulated."""
    rng = np.random.default_rng(seed)
    if name == "clouds":
        kind = rng.integers(4, size=200)
        return 1.8 * rng.normal(size=(4, 3))[kind] + 1.2 * rng.normal(size=(200, 3)), kind
    features, kind = getattr(datasets, f"load_{name}")(return_X_y=True)
    some = rng.permutation(len(kind))[:most]
    return features[some], kind[some]


def crowd(kind: np.ndarray, answers: int, seed: int) -> pd.DataFrame:
    """Grades of pairs among every other item; half of the pairs are the same."""
    rng = np.random.default_rng([seed, 2])
    sharpness = np.append(rng.uniform(1.0, 3.5, WORKERS - 1), 0.0)
    spread, shift = rng.uniform(0.4, 1.4, (WORKERS, 1)), rng.normal(0.0, 0.8, (WORKERS, 1))
    return simulate_grades(
        kind,
        sharpness,
        shift + spread * np.linspace(-1, 1, GRADES - 1),
        doubt=rng.uniform(0.0, 0.4, WORKERS),
        pairs_per_worker=answers,
        items=np.arange(0, len(kind), 2),
        balanced=True,
        seed=seed,
    )


def outcomes(answers: pd.DataFrame) -> np.ndarray:
    """Positions of the grades; the last is "can't tell"."""
    return answers["label"].fillna(OUTCOMES).to_numpy().astype(int) - 1


def channels(result: Fitted, kept: pd.DataFrame) -> np.ndarray:
    """``p(L | different)`` and ``p(L | same)`` of every worker, by either kind of fit."""
    workers = result.workers
    if "sensitivity" not in workers:
        names = [*map(str, range(1, GRADES + 1)), "unsure"]
        rows = [
            workers[[f"{site}_{name}" for name in names]] for site in ("if_different", "if_same")
        ]
        return np.stack(rows, 1)
    counts = np.zeros((WORKERS, OUTCOMES))
    np.add.at(counts, (kept["worker"].to_numpy(), outcomes(kept)), 1)
    counts += 0.5
    low, high, all_ = counts[:, :2].sum(1), counts[:, 2:4].sum(1), counts.sum(1)
    inside = counts / np.stack([low, low, high, high, all_], 1)
    yes = np.stack([1 - workers["specificity"], workers["sensitivity"]], 1)[..., None]
    sides = np.concatenate([1 - yes, 1 - yes, yes, yes], 2) * (1 - inside[:, None, -1:])
    return np.concatenate([sides * inside[:, None, :-1], inside[:, None, -1:] + 0 * yes], 2)


def scores(
    result: Fitted, kind: np.ndarray, kept: pd.DataFrame, held: pd.DataFrame
) -> dict[str, float]:
    """NMI, and the log losses of whether held-out pairs are the same, and of their grades."""
    left, right = held["left"], held["right"]
    same = np.clip(result.same_cluster_probability(left, right), 1e-4, 1 - 1e-4)
    found = {
        "nmi": float(normalized_mutual_info_score(kind, result.assignments)),
        "same": float(log_loss(kind[left] == kind[right], same)),
    }
    if result.data.has_answers:
        channel = channels(result, kept)[held["worker"], :, outcomes(held)]
        likelihood = (1 - same) * channel[:, 0] + same * channel[:, 1]
        found["grades"] = float(-np.log(likelihood).mean())
    return found


def compare(name: str, seed: int, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Scores of the three fits."""
    features, kind = table(name, seed, options.items)
    answers = crowd(kind, options.answers, seed)
    out = np.random.default_rng([seed, 3]).random(len(answers)) < 0.2
    kept, held = answers[~out], answers[out]
    decided = kept.dropna()
    fit_options: dict = {"progress": False, "seed": seed}
    if options.clusters:
        fit_options |= {"num_clusters": options.clusters, "components": GaussianComponents}
    fits = {
        "grades": cluster(features, kept, grades=range(1, GRADES + 1), **fit_options),
        "yes_no": cluster(features, decided.assign(label=decided["label"] > 2), **fit_options),
        "nobody": cluster(features, **fit_options),
    }
    return {arm: scores(result, kind, kept, held) for arm, result in fits.items()}


def main(arguments: list[str] | None = None) -> dict[str, dict[str, dict[str, float]]]:
    """Run the example; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--answers", type=int, default=60, help="per worker")
    parser.add_argument("--items", type=int, default=400, help="maximal number per table")
    parser.add_argument("--clusters", type=int, help="number of Gaussians; default: chosen")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)

    figures = {}
    for name in options.tables:
        rows = [compare(name, seed, options) for seed in range(options.seeds)]
        figures[name] = {
            arm: {
                score: round(float(np.mean([row[arm][score] for row in rows])), 4)
                for score in rows[0][arm]
            }
            for arm in rows[0]
        }
        figures[name]["as_good"] = {
            score: float(
                np.mean([sign * (row["grades"][score] - row["yes_no"][score]) >= 0 for row in rows])
            )
            for score, sign in (("nmi", 1), ("same", -1), ("grades", -1))
        }
        print(f"{name}: {figures[name]}", flush=True)
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
