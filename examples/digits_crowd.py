"""scikit-learn's digits and a simulated crowd: clustering with answers, in about a minute.

1,797 images of 8x8 pixels. 20 simulated workers answer "same" or "different" to all pairs on pages
of 36 images, independently for each pair; the pages are drawn from only 300 images. Two workers
answer at random, and one gives wrong answers; the model is not told which. BayesSCDC (Luo et al.
2018) is fitted without and with the answers, under the same conditions.

    python examples/digits_crowd.py --seed 0 --figures figures

Prints a line every tenth epoch, scores without and with the answers, estimated and true rates of
the workers and, last, one JSON object. Writes figures of the fit with answers to the folder.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_digits

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.callbacks import MergeMoves
from pyro_crowdclust.emissions import BernoulliEmission
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.inference import RecognitionTerm
from pyro_crowdclust.metrics import clustering_report
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import GaussianRecognition, SkipMLP
from pyro_crowdclust.plots import (
    plot_cluster_samples,
    plot_history,
    plot_latent,
    plot_worker_weights,
)
from pyro_crowdclust.simulation import simulate_pages, two_coin_rates
from pyro_crowdclust.training import RobbinsMonro, Trainer

NUM_WORKERS = 20
BAD_WORKERS = {4: 0.5, 11: 0.5, 17: 0.2}  # worker: both rates


def simulate(labels: np.ndarray, seed: int) -> pd.DataFrame:
    """Two pages per worker; all except the bad workers have rates of 0.75 to 0.95."""
    rng = np.random.default_rng(seed)
    sensitivity, specificity = rng.uniform(0.75, 0.95, (2, NUM_WORKERS))
    for worker, rate in BAD_WORKERS.items():
        sensitivity[worker] = specificity[worker] = rate
    asked = rng.choice(len(labels), 300, replace=False)
    return simulate_pages(
        labels, sensitivity, specificity, pages_per_worker=2, items=asked, seed=seed
    )


def cluster(data: CrowdData, labels: np.ndarray, options: argparse.Namespace) -> Fitted:
    """Fit BayesSCDC to images, and to answers if there are any."""
    pixels, dim, hidden = data.features.shape[1], options.dim, options.hidden
    model = SemiCrowdsourcedMixture(
        DirichletWeights(options.clusters),
        GaussianComponents(options.clusters, dim),
        BernoulliEmission(SkipMLP((dim, hidden, hidden, pixels))),
        TwoCoin(NUM_WORKERS) if data.num_pairs else None,
    )
    guide = MessagePassingGuide(
        model,
        GaussianRecognition(SkipMLP((pixels, hidden, hidden, 2 * dim)), dim),
        recognition_term=RecognitionTerm(20.0),
    )

    def report(trainer: Trainer) -> None:
        row = trainer.history[-1]
        if row["epoch"] % 10 == 0 or row["epoch"] == options.epochs:
            found = trainer.predict_proba(trainer.data.features).argmax(1)
            scores = clustering_report(labels, found)
            print(
                f"  epoch {row['epoch']:3d}  {row['seconds']:4.1f} s  "
                f"ELBO/item {row['elbo'] / trainer.data.num_items:7.2f}  "
                f"accuracy {scores['accuracy']:.3f}  NMI {scores['nmi']:.3f}  "
                f"clusters {scores['clusters_in_use']:.0f}",
                flush=True,
            )

    return fit(
        model,
        guide,
        data,
        epochs=options.epochs,
        step_size=RobbinsMonro(0.1, delay=200.0),
        optim=partial(torch.optim.Adam, lr=3e-3),
        seed=options.seed,
        progress=False,
        callbacks=[MergeMoves(first_epoch=10), report],
    )


def worker_table(result: Fitted, truth: pd.DataFrame) -> pd.DataFrame:
    """Posterior means of the workers' rates, and the true rates on the pairs they answered."""
    rates = ["sensitivity", "specificity", "weight"]
    return result.workers[rates].join(truth[rates].add_prefix("true_")).sort_values("weight")


def draw(result: Fitted, labels: np.ndarray, truth: pd.DataFrame, folder: Path) -> None:
    """Write the figures."""
    folder.mkdir(parents=True, exist_ok=True)
    plot_history(result).savefig(folder / "elbo.png")
    plot_latent(result, true_labels=labels).savefig(folder / "latent.png")
    samples = plot_cluster_samples(result, (8, 8), at_least=0.002)
    samples.figure.savefig(folder / "samples.png")
    plot_worker_weights(result, truth=truth).savefig(folder / "workers.png")
    print(f"figures in {folder.resolve()}: {', '.join(sorted(p.name for p in folder.iterdir()))}")


def main(arguments: list[str] | None = None) -> dict[str, object]:
    """Run the demonstration; returns what it prints as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--figures", type=Path, default=Path("figures"))
    parser.add_argument("--clusters", type=int, default=20)
    parser.add_argument("--dim", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=128)
    options = parser.parse_args(arguments)

    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    pairs = simulate(labels, options.seed)
    truth = two_coin_rates(pairs, labels)

    results = {}
    for name, answers in (("without", None), ("with", pairs)):
        data = CrowdData(images, answers)
        print(f"{name} answers: {data}")
        results[name] = cluster(data, labels, options)
    scores = {name: clustering_report(labels, r.assignments) for name, r in results.items()}
    for name, score in scores.items():
        print(
            f"{name:7} answers: accuracy {score['accuracy']:.3f}, NMI {score['nmi']:.3f}, "
            f"{score['clusters_in_use']:.0f} clusters in use, {results[name].seconds:.0f} s"
        )
    table = worker_table(results["with"], truth)
    print(table.to_string(float_format="{:.2f}".format))
    draw(results["with"], labels, truth, options.figures)

    figures = {
        f"{metric}_{name}": round(scores[name][metric], 4)
        for metric in ("nmi", "accuracy")
        for name in ("with", "without")
    }
    figures["lowest_weight_workers"] = sorted(table.index[:3].tolist())
    figures["true_bad_workers"] = sorted(BAD_WORKERS)
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
