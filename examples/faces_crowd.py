"""The Face experiment of Luo et al. 2018, section 5.2: photographs by pose, answers about pairs.

624 photographs of 20 people in 4 poses, on 20 principal components. 5 workers with sensitivity and
specificity from 0.95 to 0.75 answer n pairs each, half of which have the same pose, about all
photographs or about 100 of them. People differ more than poses do, so the model is a two-way
mixture: poses, which the answers are about, and styles, which explain other differences.

    python examples/faces_crowd.py --data DIR --seeds 10

DIR has ``cmu_faces_quarter.npz``; its default is the environment variable PYRO_CROWDCLUST_DATA, or
../shared/data without it. Prints a line per setting and seed and, last, one JSON object. Methods
that need a separate environment (ITML, PCKMeans, MPCKMeans) are run in between, on the same
answers:

    python examples/faces_crowd.py --seeds 10 --export faces.npz
    python benchmarks/faces_peers.py faces.npz faces_peers.json       # in the other environment
    python examples/faces_crowd.py --seeds 10 --peers faces_peers.json
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import BayesianGaussianMixture

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.guides import TwoWayGuide
from pyro_crowdclust.metrics import normalized_mutual_information
from pyro_crowdclust.models import TwoWayMixture
from pyro_crowdclust.restarts import average_probabilities, fit_restarts
from pyro_crowdclust.simulation import simulate_pairs

POSES, COMPONENTS, ASKED = 4, 20, 100
RATES = (0.95, 0.90, 0.85, 0.80, 0.75)


def load(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """20 principal components, each in units of its standard deviation, and the poses."""
    faces = np.load(folder / "cmu_faces_quarter.npz")
    pixels = faces["images"].reshape(len(faces["images"]), -1) / 255
    components = PCA(COMPONENTS, svd_solver="full").fit_transform(pixels)
    return components / components.std(0), faces["pose"]


def ask(poses: np.ndarray, part: str, answers: int, seed: int) -> pd.DataFrame:
    """Answers of the five workers about all photographs, or about a subset."""
    items = None
    if part == "subset":
        items = np.random.default_rng(seed).choice(len(poses), ASKED, replace=False)
    return simulate_pairs(
        poses, RATES, RATES, pairs_per_worker=answers, items=items, balanced=True, seed=seed
    )


def cluster(
    features: np.ndarray, pairs: pd.DataFrame, styles: int, starts: int, epochs: int, seed: int
) -> list[Fitted]:
    """Fits of the two-way mixture from several starts, sorted by ELBO, highest first."""
    data = CrowdData(features, pairs)
    model = TwoWayMixture(POSES, styles, COMPONENTS, TwoCoin(data.num_workers))
    return fit_restarts(
        model,
        TwoWayGuide(model),
        data,
        seeds=range(starts * seed, starts * (seed + 1)),
        batch_size=None,
        step_size=1.0,
        epochs=epochs,
        progress=False,
    )


def spectral_votes(features: np.ndarray, pairs: pd.DataFrame, seed: int) -> np.ndarray:
    """Spectral clustering of majority votes, then logistic regression for items without answers."""
    votes = np.zeros((len(features), len(features)))
    np.add.at(votes, (pairs["left"], pairs["right"]), 2 * pairs["label"] - 1)
    votes += votes.T
    asked = np.union1d(pairs["left"], pairs["right"])
    affinity = (votes[np.ix_(asked, asked)] > 0).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The graph of few votes is not connected.
        found = SpectralClustering(POSES, affinity="precomputed", random_state=seed)
        found = found.fit_predict(affinity)
    assignments = np.zeros(len(features), dtype=int)
    if len(np.unique(found)) > 1:
        assignments = LogisticRegression(max_iter=2000).fit(features[asked], found)
        assignments = assignments.predict(features)
    assignments[asked] = found
    return assignments


def peers(features: np.ndarray, pairs: pd.DataFrame, seed: int) -> dict[str, np.ndarray]:
    """Clusterings of the same data by scikit-learn."""
    mixture = BayesianGaussianMixture(
        n_components=POSES, weight_concentration_prior_type="dirichlet_process", random_state=seed
    )
    return {
        "k-means": KMeans(POSES, n_init=10, random_state=seed).fit_predict(features),
        "Bayesian Gaussian mixture": mixture.fit_predict(features),
        "spectral votes": spectral_votes(features, pairs, seed),
    }


def worker_report(results: list[Fitted]) -> dict[str, float]:
    """How often the order of the five weights is right, and 90 % intervals contain the truth."""
    rates = np.array(RATES)
    truth = 2 * np.log(rates / (1 - rates))
    ordered, inside = 0, []
    for result in results:
        table = result.workers
        ordered += bool((table["weight"].diff().dropna() < 0).all())
        inside.append((table["weight"] - truth).abs() < 1.645 * table["weight_sd"])
    return {"order_right": ordered, "of": len(results), "inside_90": float(np.mean(inside))}


def summarize(scores: dict[str, list[float]]) -> dict[str, Any]:
    """Means over the seeds, for this library and for the best peer."""
    means = {name: float(np.mean(values)) for name, values in scores.items()}
    ours = means.pop("ours")
    best = max(means, key=means.get)
    return {
        "ours_nmi": round(ours, 4),
        "ours_sd": round(float(np.std(scores["ours"])), 4),
        "ours_every": [round(one, 4) for one in scores["ours"]],
        "best_peer_nmi": round(means[best], 4),
        "best_peer": best,
        "peers": {name: round(mean, 4) for name, mean in means.items()},
    }


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Run the experiment; returns what it prints as JSON."""
    default = os.environ.get("PYRO_CROWDCLUST_DATA", "../shared/data")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--answers", type=int, nargs="+", default=[200, 500, 1000, 2000])
    parser.add_argument("--styles", type=int, default=16)
    parser.add_argument("--starts", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--export", type=Path, help="write the data for other peers, and stop")
    parser.add_argument("--peers", type=Path, help="scores of other peers, by faces_peers.py")
    options = parser.parse_args(arguments)

    features, poses = load(options.data)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    settings = [(part, answers) for part in ("all", "subset") for answers in options.answers]
    asked = {
        f"{part} {answers} {seed}": ask(poses, part, answers, seed)
        for part, answers in settings
        for seed in seeds
    }
    if options.export is not None:
        tables = {key: frame.to_numpy() for key, frame in asked.items()}
        np.savez_compressed(options.export, features=features, poses=poses, **tables)
        print(f"wrote {options.export}")
        return {}
    others = json.loads(options.peers.read_text()) if options.peers is not None else {}

    figures: dict[str, Any] = {"all": {}, "subset": {}}
    for part, answers in settings:
        scores: dict[str, list[float]] = {}
        results = []
        for seed in seeds:
            key = f"{part} {answers} {seed}"
            fits = cluster(
                features, asked[key], options.styles, options.starts, options.epochs, seed
            )
            results.append(fits[0])
            ours = average_probabilities(fits).argmax(1)
            found = {"ours": ours, **peers(features, asked[key], seed)}
            nmi = {name: normalized_mutual_information(poses, got) for name, got in found.items()}
            for name, score in (nmi | others.get(key, {})).items():
                scores.setdefault(name, []).append(float(score))
            print(
                f"{part:6s} n = {answers:4d}  seed {seed}  "
                + "  ".join(f"{name} {values[-1]:.3f}" for name, values in scores.items()),
                flush=True,
            )
        figures[part][str(answers)] = summarize(scores)
        if part == "all" and answers == max(options.answers):
            figures["workers"] = worker_report(results)
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
