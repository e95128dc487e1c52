"""CIFAR-10 with simulated pages, after Luo et al. 2018, section 5.3: residual networks.

The answers of the paper are not public, so its scheme is simulated: 240 pages of 36 images, drawn
from 4,000, are sorted by 32 workers, whose quality is that of the 48 workers who sorted MNIST, or
that of the human labels of CIFAR-10N. K = 10 clusters, d = 64, five stacks of residual blocks from
32 x 32 to 8 x 8 and back, nine convolutional layers for the q(z | o) of SCDC.

    python examples/cifar10_crowd.py --items 20000 --epochs 200 --device cuda --width 64

Reads ``cifar10_train_1.npz``, ``cifar10_train_2.npz``, ``cifar10_test_first1000.npz``, and
``mnist.npz`` and ``mnist_crowd_annotations.npz`` or ``cifar10n_labels.npz`` from a folder; its
default is the environment variable PYRO_CROWDCLUST_DATA, else ../shared/data. Prints a line per
epoch and, last, one JSON object. On a CPU a few thousand images and a small width are feasible.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.emissions import NormalEmission
from pyro_crowdclust.guides import AmortizedGuide, MessagePassingGuide
from pyro_crowdclust.inference import RecognitionTerm, exponential_annealing
from pyro_crowdclust.metrics import clustering_report
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import (
    AmortizedRecognition,
    ConvolutionalClassifier,
    GaussianRecognition,
    ResidualDecoder,
    ResidualEncoder,
)
from pyro_crowdclust.simulation import simulate_partitions, two_coin_rates
from pyro_crowdclust.starts import PrincipalComponentStart
from pyro_crowdclust.training import Trainer

IMAGE, PIXELS, CLASSES = (3, 32, 32), 3 * 32 * 32, 10
ASKED, PAGES, PAGE_SIZE, WORKERS = 4000, 240, 36, 32


def rows(images: np.ndarray) -> np.ndarray:
    """Images ``[item, 32, 32, 3]`` of bytes as rows, channels first, of about unit scale."""
    return ((images.transpose(0, 3, 1, 2).reshape(len(images), -1) / 255 - 0.5) * 4).astype(
        np.float32
    )


def load(
    folder: Path, items: int, test_items: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The first images of the training set and their classes; test images and their classes."""
    parts = [np.load(folder / f"cifar10_train_{part}.npz") for part in (1, 2)]
    if items <= 10_000:
        parts = parts[:1]
    images = np.concatenate([part["images"] for part in parts])[:items]
    labels = np.concatenate([part["labels"] for part in parts])[:items]
    test = np.load(folder / "cifar10_test_first1000.npz")
    test_images, test_labels = (test[name][:test_items] for name in ("images", "labels"))
    return rows(images), labels.astype(int), rows(test_images), test_labels.astype(int)


def mnist_error_rates(folder: Path, rng: np.random.Generator) -> np.ndarray:
    """How often a worker of MNIST misplaces an image: ``1 - sqrt(sensitivity)``, of 32 workers."""
    crowd = np.load(folder / "mnist_crowd_annotations.npz")
    pairs = pd.DataFrame(crowd["annotations"], columns=["left", "right", "worker", "label"])
    rates = two_coin_rates(pairs, np.load(folder / "mnist.npz")["y_train"])
    errors = 1 - np.sqrt(rates["sensitivity"].to_numpy())
    return rng.choice(errors[np.isfinite(errors)], WORKERS, replace=False)


def ask(folder: Path, labels: np.ndarray, quality: str, seed: int) -> pd.DataFrame:
    """Pages of the answered images; fewer in proportion if there are fewer than 4,000 of them."""
    rng = np.random.default_rng(seed)
    asked = rng.permutation(len(labels))[:ASKED]
    pages = max(1, round(PAGES * len(asked) / ASKED))
    each = -(-pages // WORKERS)
    draw = partial(simulate_partitions, pages_per_worker=each, page_size=PAGE_SIZE, items=asked)
    if quality == "mnist":
        frame = draw(labels, mnist_error_rates(folder, rng), seed=seed)
    else:
        # A worker sorts by one person's label of every image, right or wrong.
        human = np.load(folder / "cifar10n_labels.npz")["labels"][: len(labels)].astype(int)
        sorted_by = [draw(human[:, one], [0.0] * WORKERS, seed=seed) for one in range(3)]
        frame = pd.concat([part[part["worker"] % 3 == one] for one, part in enumerate(sorted_by)])
    # Every worker sorts one page, then every worker a second one, until all pages are sorted.
    turn = frame["page"] % each * WORKERS + frame["worker"]
    return frame[turn < pages].reset_index(drop=True)


def build(
    data: CrowdData, variant: str, dim: int, width: int, term: RecognitionTerm
) -> tuple[SemiCrowdsourcedMixture, MessagePassingGuide | AmortizedGuide]:
    """BayesSCDC or SCDC with the same decoder."""
    model = SemiCrowdsourcedMixture(
        DirichletWeights(CLASSES, 1.0),
        GaussianComponents(CLASSES, dim),
        NormalEmission(ResidualDecoder(dim, IMAGE, width), PIXELS),
        TwoCoin(data.num_workers) if data.answers is not None else None,
    )
    if variant == "bayes":
        encoder = GaussianRecognition(ResidualEncoder(IMAGE, 2 * dim, width), dim)
        return model, MessagePassingGuide(model, encoder, recognition_term=term)
    hidden = 4 * width
    recognition = AmortizedRecognition(
        (PIXELS, hidden),
        dim,
        CLASSES,
        trunk=ResidualEncoder(IMAGE, hidden, width),
        assignment_network=ConvolutionalClassifier(IMAGE, CLASSES, 2 * width),
    )
    return model, AmortizedGuide(model, recognition, recognition_term=term)


class Scores:
    """A callback that scores training and test images after every epoch."""

    def __init__(self, labels: np.ndarray, test: np.ndarray, test_labels: np.ndarray) -> None:
        self.labels, self.test, self.test_labels = labels, test, test_labels

    def __call__(self, trainer: Trainer) -> None:
        """Add the scores to the epoch's row of the history and print it."""
        row = trainer.history[-1]
        for part, features, labels in (
            ("train", trainer.data.features, self.labels),
            ("test", self.test, self.test_labels),
        ):
            scores = clustering_report(labels, trainer.predict_proba(features).argmax(1))
            row |= {f"{part}_{name}": value for name, value in scores.items()}
        print(
            f"epoch {row['epoch']:3d}  {row['seconds']:6.1f} s  "
            f"ELBO/item {row['elbo'] / trainer.data.num_items:9.2f}  "
            f"train {row['train_accuracy']:.4f} / {row['train_nmi']:.4f}  "
            f"test {row['test_accuracy']:.4f} / {row['test_nmi']:.4f}  "
            f"clusters {row['test_clusters_in_use']:.0f}",
            flush=True,
        )


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Run the experiment; returns what it prints as JSON."""
    default = os.environ.get("PYRO_CROWDCLUST_DATA", "../shared/data")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--test-items", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variant", choices=["bayes", "amortized"], default="bayes")
    parser.add_argument("--answers", choices=["yes", "no"], default="yes")
    parser.add_argument("--quality", choices=["mnist", "cifar10n"], default="mnist")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=100, help="images without answers")
    parser.add_argument("--weight", type=float, default=1000.0, help="of the recognition term")
    parser.add_argument("--partition-steps", type=int, default=100)
    options = parser.parse_args(arguments)

    images, labels, test, test_labels = load(options.data, options.items, options.test_items)
    pairs = None
    if options.answers == "yes":
        pairs = ask(options.data, labels, options.quality, options.seed)
    data = CrowdData(images, pairs)
    print(f"{data}; {options.device}, {torch.get_num_threads()} threads")
    term = RecognitionTerm(exponential_annealing(options.weight, 0.98, 5.0))
    model, guide = build(data, options.variant, options.dim, options.width, term)
    started = time.perf_counter()
    result = fit(
        model,
        guide,
        data,
        epochs=options.epochs,
        batch_size=options.batch_size,
        step_size=0.01,
        seed=options.seed,
        device=options.device,
        initialize=PrincipalComponentStart(partition_steps=options.partition_steps),
        callbacks=[Scores(labels, test, test_labels)],
        progress=False,
    )
    last = result.history.iloc[-1]
    names = ("accuracy", "nmi", "ami", "ari", "clusters_in_use")
    figures = {f"test_{name}": float(last[f"test_{name}"]) for name in names}
    figures["train_accuracy"] = float(last["train_accuracy"])
    figures["train_nmi"] = float(last["train_nmi"])
    figures["seconds_per_epoch"] = float(result.history["seconds"].mean())
    print(f"{result.stop_reason}; {time.perf_counter() - started:.0f} s in all")
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))
    return figures


if __name__ == "__main__":
    main()
