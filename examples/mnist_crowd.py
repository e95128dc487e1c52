"""MNIST with the real answers of 48 workers: the main experiment of Luo et al. 2018.

57,330 answers (91 pages of 36 images, sorted by 48 people) about 2,759 of 60,000 images. BayesSCDC
with the settings of the paper: K = 50 clusters, d = 8 latent dimensions, 500-500 networks.

    python examples/mnist_crowd.py --data DIR --epochs 20 --seed 0

In two processes that find the same, on one machine or several:

    torchrun --nproc-per-node 2 examples/mnist_crowd.py --data DIR --epochs 20 --seed 0

DIR holds ``mnist.npz`` and ``mnist_crowd_annotations.npz``; its default is the environment variable
PYRO_CROWDCLUST_DATA, else ../shared/data. Prints a line per epoch and, last, one JSON object.
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

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.emissions import BernoulliEmission
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.merge import MergeMoves
from pyro_crowdclust.metrics import clustering_report
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import GaussianRecognition, SkipMLP
from pyro_crowdclust.optim import robbins_monro
from pyro_crowdclust.ranks import joined_ranks
from pyro_crowdclust.recognition import RecognitionTerm, exponential_annealing
from pyro_crowdclust.training import Trainer
from pyro_crowdclust.unsupported import DropMoves


def load(
    folder: Path, num_unanswered: int | None = None
) -> tuple[CrowdData, np.ndarray, np.ndarray, np.ndarray]:
    """Training images with answers, their digits, test images, their digits.

    Training images without answers are all that there are, or the first ``num_unanswered``.
    """
    images = np.load(folder / "mnist.npz")
    crowd = np.load(folder / "mnist_crowd_annotations.npz")
    pairs = pd.DataFrame(crowd["annotations"], columns=["left", "right", "worker", "label"])
    pairs["page"] = crowd["hit"]

    def scaled(pixels: np.ndarray) -> np.ndarray:
        return pixels.reshape(len(pixels), -1).astype(np.float32) / 255

    answered = np.union1d(pairs["left"], pairs["right"])
    others = np.setdiff1d(np.arange(len(images["x_train"])), answered)
    chosen = np.union1d(answered, others[:num_unanswered])
    train, test = scaled(images["x_train"][chosen]), scaled(images["x_test"])
    data = CrowdData(train, pairs, item_ids=chosen)
    return data, images["y_train"][chosen], test, images["y_test"]


def build(
    data: CrowdData, num_clusters: int, dim: int, hidden: int, recognition_term: RecognitionTerm
) -> tuple[SemiCrowdsourcedMixture, MessagePassingGuide]:
    """BayesSCDC: a mirrored Bernoulli decoder and a message-passing guide."""
    pixels = data.features.shape[1]
    model = SemiCrowdsourcedMixture(
        DirichletWeights(num_clusters),
        GaussianComponents(num_clusters, dim),
        BernoulliEmission(SkipMLP((dim, hidden, hidden, pixels))),
        TwoCoin(data.num_workers),
    )
    recognition = GaussianRecognition(SkipMLP((pixels, hidden, hidden, 2 * dim)), dim)
    return model, MessagePassingGuide(model, recognition, recognition_term=recognition_term)


class Scores:
    """A callback that scores training and test images after every epoch."""

    def __init__(self, train_labels: np.ndarray, test: np.ndarray, test_labels: np.ndarray) -> None:
        self.train_labels, self.test, self.test_labels = train_labels, test, test_labels

    def __call__(self, trainer: Trainer) -> None:
        """Add the scores to the epoch's row of the history and print it."""
        row = trainer.history[-1]
        for part, features, labels in (
            ("train", trainer.data.features, self.train_labels),
            ("test", self.test, self.test_labels),
        ):
            assignments = trainer.predict_proba(features).argmax(1)
            scores = clustering_report(labels, assignments)
            row |= {f"{part}_{name}": value for name, value in scores.items()}
        for name, rate in trainer.guide.worker_rates().items():
            row[f"mean_{name}"] = float(rate.mean.mean())
        if not trainer.ranks.is_first:
            return
        print(
            f"epoch {row['epoch']:3d}  {row['seconds']:5.1f} s  "
            f"ELBO/item {row['elbo'] / trainer.data.num_items:8.2f}  "
            f"train {row['train_accuracy']:.4f} / {row['train_nmi']:.4f} / {row['train_ami']:.4f}  "
            f"test {row['test_accuracy']:.4f} / {row['test_nmi']:.4f} / {row['test_ami']:.4f}  "
            f"clusters {row['test_clusters_in_use']:.0f} "
            f"({row['merges']} merged, {row['drops']} dropped)  "
            f"sensitivity {row['mean_sensitivity']:.3f}  specificity {row['mean_specificity']:.3f}",
            flush=True,
        )


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Run the experiment; returns what it prints as JSON."""
    default = os.environ.get("PYRO_CROWDCLUST_DATA", "../shared/data")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--items", type=int, help="use so many images without answers; all if not")
    parser.add_argument("--checkpoint", type=Path, help="go on from this file, and write it")
    parser.add_argument("--clusters", type=int, default=50)
    parser.add_argument("--dim", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=500)
    parser.add_argument("--step-size", type=float, default=0.01)
    parser.add_argument("--step-delay", type=float, default=1000.0)
    parser.add_argument("--drop-until", type=int, default=3, help="last epoch of drop moves")
    parser.add_argument("--weight", type=float, default=200.0)
    parser.add_argument("--decay", type=float, default=1.0)
    parser.add_argument("--floor", type=float, default=5.0)
    options = parser.parse_args(arguments)

    data, train_labels, test, test_labels = load(options.data, options.items)
    term = RecognitionTerm(exponential_annealing(options.weight, options.decay, options.floor))
    model, guide = build(data, options.clusters, options.dim, options.hidden, term)
    scores = Scores(train_labels, test, test_labels)
    started = time.perf_counter()
    with joined_ranks() as ranks:
        if ranks.is_first:
            print(f"{data}; {ranks.count} processes of {torch.get_num_threads()} threads")
        result = fit(
            model,
            guide,
            data,
            epochs=options.epochs,
            step_size=robbins_monro(options.step_size, options.step_delay, forgetting=1.0),
            seed=options.seed,
            progress=False,
            callbacks=[MergeMoves(), DropMoves(last_epoch=options.drop_until), scores],
            checkpoint=options.checkpoint,
            resume=options.checkpoint is not None,
            ranks=ranks,
        )
    last = result.history.iloc[-1]
    figures = {
        "test_accuracy": last["test_accuracy"],
        "test_nmi": last["test_nmi"],
        "test_ami": last["test_ami"],
        "clusters_in_use": int(last["test_clusters_in_use"]),
        "mean_sensitivity": last["mean_sensitivity"],
        "mean_specificity": last["mean_specificity"],
        "seconds_per_epoch": float(result.history["seconds"].mean()),
    }
    if ranks.is_first:
        print(f"{result.stop_reason}; {time.perf_counter() - started:.0f} s in all")
        print(json.dumps({name: round(float(value), 4) for name, value in figures.items()}))
    return figures


if __name__ == "__main__":
    main()
